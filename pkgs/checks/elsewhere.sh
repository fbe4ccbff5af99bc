# Builds the image from nothing in a store of its own and compares it with the one in the usual store. $1 is the Python
# to fetch with; needs the network.
set -eu
elsewhere=$(mktemp -d)
trap 'chmod -R u+w "$elsewhere"; rm -rf "$elsewhere"' EXIT
nix build .#squashfs --no-link
image=$(nix eval .#squashfs --raw)
usual=$(sha256sum <"$image")
NIX_CONFIG="$NIX_CONFIG
store = $elsewhere"
LOCKED=1 "$1" pkgs/fetch
nix build .#squashfs --no-link --print-build-logs
if [ "$usual" != "$(sha256sum <"$elsewhere$image")" ]; then
  echo "the image built in an empty store differs from $image" >&2
  exit 1
fi
echo "the image built in an empty store is identical: $usual"
