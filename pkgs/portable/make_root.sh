# A root in which there is nothing but busybox: no libc, no Python, no GNU tools.
set -eu
for folder in usr/bin nix/store proc dev tmp build; do "$busybox" mkdir -p "$out/$folder"; done
"$busybox" ln -s usr/bin "$out/bin"
for name in $("$busybox" --list); do "$busybox" ln -s "$busybox" "$out/usr/bin/$name"; done
