# Builds every derivation behind the image and the workstation's programs a second time; Nix fails when a byte differs.
# The kernel has its turn with KERNEL=1, 50 minutes more; what is made with it has its turn always. Kubernetes has it with
# KUBERNETES=1, a quarter of an hour.
# $1 is the system, the other arguments are packages without a turn.
set -eu
system=$1
shift
without=$(printf '"%s" ' "$@")
kept='bootstrap'
if [ -z "${KERNEL:-}" ]; then
  without="$without \"kernel\" \"kernel-config\" \"kernel-source\""
  kept="$kept|kernel|root-kernel[a-z-]*"
fi
if [ -z "${KUBERNETES:-}" ]; then
  without="$without \"kubernetes\" \"kubectl\" \"images-all\" \"image-cache\""
  kept="$kept|go-kubernetes"
fi
derivations=$(nix eval ".#packages.$system" --raw --apply \
  'set: builtins.concatStringsSep " " (map (name: builtins.unsafeDiscardOutputDependency set.${name}.drvPath)
    (builtins.attrNames (removeAttrs set [ '"$without"' ])))')
nix build .#squashfs .#talosctl .#size .#rootfs .#disk-image .#iso .#netboot .#images ${KUBERNETES:+.#images-all} --no-link
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Fixed outputs, what was downloaded, have nothing to rebuild.
for derivation in $(nix-store --query --requisites $derivations | grep '[.]drv$' | grep -v -E '[.](deb|whl|zip|mod)[.]drv$|-('"$kept"')[.]drv$'); do
  for check in "" --check; do
    nix-store --realise $check "$derivation" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
  done
  echo "${derivation#/nix/store/*-}: the second build is identical"
done
