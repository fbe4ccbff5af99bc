# Installs what a fresh Debian machine lacks to start a build: make tools. $1 is the Python to fetch with. Elsewhere it
# names what is missing.
set -eu
missing=""
command -v nix >/dev/null || missing="$missing nix-bin"
command -v git >/dev/null || missing="$missing git"
command -v "$1" >/dev/null || missing="$missing python3"
if ! command -v apt-get >/dev/null; then
  if [ -n "$missing" ]; then
    echo "make: this machine lacks$(echo "$missing" | sed 's/nix-bin/nix/'), and it has no apt-get to install them with: please install them" >&2
    exit 1
  fi
  exit 0
fi
# The clients that bring inputs; where a variable names the source, none is needed.
[ -n "${GOPROXY:-}" ] || command -v go >/dev/null || missing="$missing golang-go"
[ -n "${PIP_INDEX_URL:-}" ] || "$1" -m pip --version >/dev/null 2>&1 || missing="$missing python3-pip"
[ -e /usr/share/keyrings/debian-archive-keyring.gpg ] || missing="$missing debian-archive-keyring"
if [ -n "$missing" ]; then
  if [ "$(id -u)" != 0 ]; then
    echo "make: these packages are missing:$missing; run make as root, or install them" >&2
    exit 1
  fi
  echo "make: installing$missing" >&2
  apt-get update -q >/dev/null
  DEBIAN_FRONTEND=noninteractive apt-get install -q -y --no-install-recommends $missing >/dev/null
  # What make passes to Nix, for whom calls it by hand. One that was there before keeps its settings.
  case "$missing" in
    *nix-bin*)
      if [ ! -e /etc/nix/nix.conf ]; then
        mkdir -p /etc/nix
        printf '%s\n' "${NIX_CONFIG:-experimental-features = nix-command flakes}" > /etc/nix/nix.conf
      fi
      ;;
  esac
fi
