# Builds every package of the flake a second time; Nix fails when a byte differs. $1 is the system.
set -eu
names=$(nix eval ".#packages.$1" --raw --apply 'set: builtins.concatStringsSep " " (builtins.attrNames set)')
for name in $names; do
  nix build ".#packages.$1.$name" --no-link
  nix build ".#packages.$1.$name" --no-link --rebuild
  echo "$name: the second build is identical"
done
