# Builds the image from nothing and compares it with the one in the usual store: in a store of its own, without a network,
# from a copy of the locked inputs as `make mirror` makes it. $1 is the Python to fetch with.
set -eu
elsewhere=$(mktemp -d)
trap 'chmod -R u+w "$elsewhere"; rm -rf "$elsewhere"' EXIT
nix build .#squashfs --no-link
image=$(nix eval .#squashfs --raw)
usual=$(sha256sum <"$image")
LOCKED=1 "$1" pkgs/fetch mirror "$elsewhere/mirror" image
NIX_CONFIG="$NIX_CONFIG
store = $elsewhere/store"
LOCKED=1 FETCH_MIRROR="$elsewhere/mirror" unshare --net sh -euc '"$0" pkgs/fetch && nix build .#squashfs --no-link --print-build-logs' "$1"
if [ "$usual" != "$(sha256sum <"$elsewhere/store$image")" ]; then
  echo "the image built in an empty store differs from $image" >&2
  exit 1
fi
echo "the image built in an empty store without a network is identical: $usual"
