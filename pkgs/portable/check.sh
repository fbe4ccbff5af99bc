# Runs $portable in a root without a libc: it unpacks itself once, works, and names what it lacks.
set -eu
export HOME=/tmp/home
mkdir "$HOME"
expect() {
  grep -q -F "$1" /tmp/shown || { cat /tmp/shown; echo "not shown: $1"; exit 1; }
}
"$portable" version --client >/tmp/shown
expect "$version"
unpacked=$(ls "$HOME/.cache/talosctl")
"$portable" gen config demo https://10.0.0.1:6443 --output /tmp/demo >/tmp/shown 2>&1 || { cat /tmp/shown; exit 1; }
"$portable" validate --mode metal --config /tmp/demo/controlplane.yaml >/tmp/shown 2>&1 || { cat /tmp/shown; exit 1; }
expect "is valid for metal mode"
[ "$unpacked" = "$(ls "$HOME/.cache/talosctl")" ]
! env -u HOME "$portable" version --client 2>/tmp/shown
expect "talosctl: neither HOME nor XDG_CACHE_HOME is set"
head -c 100000 "$portable" >/tmp/cut
! XDG_CACHE_HOME=/tmp/other sh /tmp/cut version --client 2>/tmp/shown
expect "Is /tmp/cut whole?"
[ -z "$(ls /tmp/other/talosctl)" ]
echo passed >"$out"
