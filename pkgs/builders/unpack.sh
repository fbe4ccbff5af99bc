# Unpacks $debs into $out, with the links and mount points of a merged-/usr root.
set -eu
run() { "$busybox" "$@"; }
for folder in bin sbin lib lib64; do
  run mkdir -p "$out/usr/$folder"
  run ln -s "usr/$folder" "$out/$folder"
done
for folder in nix/store proc dev tmp build etc; do run mkdir -p "$out/$folder"; done
for deb in $debs; do
  run ar -p "$deb" data.tar.xz | run unxz -c | run tar -x -o -C "$out" -f -
done
# The node's and the builds' libraries are found through the cache only where there is no default path.
run chmod -R u+w "$out"
