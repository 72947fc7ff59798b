"""The Kubernetes manifest, by its structure: no cluster is at hand. What it declares is what compose declares."""

from pathlib import Path

import pytest
import yaml

ROOT = Path(__file__).parents[1]
MANIFEST = ROOT / "docs/kubernetes/workers.yaml"


@pytest.fixture(scope="module")
def pod() -> dict:
    """What each pod is made of."""
    deployment, _ = yaml.safe_load_all(MANIFEST.read_text())
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    assert deployment["spec"]["selector"]["matchLabels"] == labels
    return deployment["spec"]["template"]["spec"]


@pytest.fixture(scope="module")
def boxes(pod: dict) -> list[dict]:
    """The containers that are boxes."""
    return pod["containers"][1:]


def test_the_pod_has_nothing_of_its_node_and_no_token(pod):
    assert pod["automountServiceAccountToken"] is False
    assert not (pod["hostNetwork"] or pod["hostPID"] or pod["hostIPC"] or pod["shareProcessNamespace"])
    assert pod["enableServiceLinks"] is False
    assert pod["securityContext"]["seccompProfile"] == {"type": "RuntimeDefault"}
    assert {kind for volume in pod["volumes"] for kind in volume} == {"name", "emptyDir"}


def test_the_worker_is_an_ordinary_user_that_says_what_it_accepts(pod):
    worker = pod["containers"][0]
    context = worker["securityContext"]
    assert context["runAsNonRoot"] and context["readOnlyRootFilesystem"] and not context["allowPrivilegeEscalation"]
    assert context["capabilities"] == {"drop": ["ALL"]}
    assert context["runAsGroup"] == pod["securityContext"]["fsGroup"]
    values = {entry["name"]: entry.get("value") for entry in worker["env"]}
    assert values["MICROCODER_DIAL_IN_SHARED_NETWORK"] == "accepted"
    assert values["MICROCODER_DIAL_IN_IMAGE"] == pod["containers"][1]["image"]


def test_every_box_is_locked_as_composes_are(pod, boxes):
    declared = yaml.safe_load((ROOT / "docker/compose-dial-in.yml").read_text())["services"]["box"]
    assert len(boxes) == 4
    assert len({box["name"] for box in boxes}) == 4
    for box in boxes:
        context = box["securityContext"]
        assert f"{context['runAsUser']}:{context['runAsGroup']}" == declared["user"]
        assert context["capabilities"] == {"drop": declared["cap_drop"], "add": declared["cap_add"]}
        assert context["readOnlyRootFilesystem"] is declared["read_only"]
        assert context["allowPrivilegeEscalation"] is False
        assert "privileged" not in context
        assert box["command"] == declared["command"]
        assert box["resources"]["limits"]["memory"] == "4608Mi"
        assert not any(name in box for name in ("env", "envFrom", "livenessProbe", "readinessProbe", "lifecycle"))


def test_a_box_can_write_to_its_own_scratch_and_nowhere_else(pod, boxes):
    volumes = {volume["name"]: volume["emptyDir"] for volume in pod["volumes"]}
    scratches = set()
    for box in boxes:
        mounts = {mount["mountPath"]: mount for mount in box["volumeMounts"]}
        assert set(mounts) == {"/run/microcoder", "/dev/shm", "/dev/mqueue", "/w"}
        assert [path for path, mount in mounts.items() if not mount.get("readOnly")] == ["/w"]
        scratch = mounts["/w"]["name"]
        assert volumes[scratch] == {"medium": "Memory", "sizeLimit": "64Mi"}
        scratches.add(scratch)
        # Where a test can't enter: the folder is root's alone in the image.
        assert box["terminationMessagePath"].startswith("/opt/microcoder/")
    assert len(scratches) == len(boxes)
    assert "-m 0700 /opt/microcoder" in (ROOT / "docker/Dockerfile").read_text()


def test_worker_and_boxes_meet_in_one_volume(pod, boxes):
    [where] = [mount["mountPath"] for mount in pod["containers"][0]["volumeMounts"] if mount["name"] == "meeting"]
    assert f"{where}/dial-in" == "/run/microcoder/boxes/dial-in"
    for box in boxes:
        [mount] = [mount for mount in box["volumeMounts"] if mount["name"] == "meeting"]
        assert f"{mount['mountPath']}/dial-in" == box["command"][-1]


def test_the_network_is_closed_but_for_redis_and_names(pod):
    deployment, policy = yaml.safe_load_all(MANIFEST.read_text())
    assert policy["kind"] == "NetworkPolicy"
    assert policy["spec"]["podSelector"] == deployment["spec"]["selector"]
    assert set(policy["spec"]["policyTypes"]) == {"Ingress", "Egress"}
    assert policy["spec"]["ingress"] == []
    assert [[port["port"] for port in rule["ports"]] for rule in policy["spec"]["egress"]] == [[6379], [53, 53]]
