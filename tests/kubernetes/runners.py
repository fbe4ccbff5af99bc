"""Images that behave as the runner of Kubernetes' conformance tests does: a log, results, an exit code."""

from pathlib import Path

from tests.harness.aliases import HOST, add_program

RESULTS = (
    'echo "tests of $E2E_FOCUS, $E2E_PARALLEL at once"; echo "$E2E_SKIP" > /tmp/results/e2e.log; '
    "ls /var/run/secrets/kubernetes.io/serviceaccount"
)
RUNNERS = {
    "passes": f"{RESULTS}; sleep 3; echo all is well",
    "fails": f"{RESULTS}; echo one of them fails; exit 3",
    "hangs": "echo it begins; trap exit TERM; sleep infinity & wait",
}


def add_runners(images: Path) -> None:
    """Put one image of each kind into a folder of archives."""
    (source,) = images.glob("busybox-*.tar")
    for name, script in RUNNERS.items():
        add_program(source, images / f"runner-{name}.tar", runner(name), ["sh", "-c", script])


def runner(name: str) -> str:
    """The full name of such an image."""
    return f"{HOST}/runner:{name}"
