# Runs in the shell of `nix develop`, in the folder in which it was started.
export PYTHONPATH="$PWD/python:$PWD"
export TALOS_RELEASE_KEY="$PWD/build/keys/development.pub"
[ -e python/talos/api/machine/machine_pb2.py ] || echo "the modules of the .proto files are not there yet: make api" >&2
