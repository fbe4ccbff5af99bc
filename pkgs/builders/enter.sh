# Runs "$@" inside $root: a private mount namespace, the store and /proc bound in, then chroot.
set -eu
if [ "${entered:-}" = "" ]; then
  entered=yes exec "$busybox" unshare -r -m "$busybox" sh "$0" "$@"
fi
for bound in nix/store proc dev; do "$busybox" mount --rbind "/$bound" "$root/$bound"; done
"$busybox" mount -t tmpfs -o mode=1777 tmp "$root/tmp"
"$busybox" mount --rbind "$NIX_BUILD_TOP" "$root/build"
export HOME=/build TMPDIR=/tmp PATH=/usr/bin:/usr/sbin NIX_BUILD_TOP=/build
unset entered
exec "$busybox" chroot "$root" "$busybox" sh -c 'cd /build; exec "$@"' sh "$@"
