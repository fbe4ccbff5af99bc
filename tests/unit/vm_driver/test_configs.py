"""What is left out of the machines' configs."""

import yaml
from driver.configs import KUBERNETES

from talos.config.generate.config import generate_config, render
from talos.config.generate.options import GenerateOptions
from talos.config.model import MachineType
from talos.config.secrets.bundle import SecretsBundle


def test_of_kubernetes_only_what_has_a_name_stays() -> None:
    options = GenerateOptions(
        cluster_name="vm", endpoint="https://10.0.2.15:6443", secrets=SecretsBundle.generate()
    )
    text = render(generate_config(options, MachineType.CONTROL_PLANE), docs=False, examples=False)
    documents = [document for document in yaml.safe_load_all(text) if "kind" in document]
    found = {document["kind"] for document in documents if document["kind"].startswith("Kube")}
    named = {document["kind"] for document in documents if "name" in document}
    assert set(KUBERNETES) == found - named
