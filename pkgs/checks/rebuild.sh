# Builds every derivation behind the image and the workstation's programs a second time; Nix fails when a byte differs.
# The kernel's turn is `nix build .#kernel --rebuild`, an hour of its own; what is made with it has its turn here.
# Kubernetes' is `nix build .#kubernetes --rebuild`, a quarter of an hour.
# $1 is the system.
set -eu
derivations=$(nix eval ".#packages.$1" --raw --apply \
  'set: builtins.concatStringsSep " " (map (name: builtins.unsafeDiscardOutputDependency set.${name}.drvPath)
    (builtins.attrNames (removeAttrs set [ "kernel" "kernel-config" "kubernetes" "kubectl" "images-all" ])))')
nix build .#squashfs .#talosctl .#size .#rootfs .#disk-image .#iso .#netboot .#images --no-link
log=$(mktemp)
trap 'rm -f "$log"' EXIT
# Fixed outputs, what was downloaded, have nothing to rebuild.
for derivation in $(nix-store --query --requisites $derivations | grep '[.]drv$' | grep -v -E '[.](deb|whl|zip|mod)[.]drv$|-(bootstrap|kernel|go-kubernetes|root-kernel[a-z-]*)[.]drv$'); do
  for check in "" --check; do
    nix-store --realise $check "$derivation" >"$log" 2>&1 || { cat "$log" >&2; exit 1; }
  done
  echo "${derivation#/nix/store/*-}: the second build is identical"
done
