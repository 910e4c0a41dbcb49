# SPDX-License-Identifier: Apache-2.0
"""A bundle's texts: every secret is hidden, every name has a stand-in, and the rest stays."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from stoker.agent.commands.bundle_redaction import HIDDEN, BundleRedaction
from stoker.mesh.identity import identity

SEED = identity.of_raw(bytes(range(32))).seed
PUBLIC = identity.of_raw(bytes(range(32))).public
HASH = "0123456789abcdef" * 4
PEM = "-----BEGIN PRIVATE KEY-----\nMIIEvQ\nIBADAN\n-----END PRIVATE KEY-----"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        (f"key {SEED} was read", f"key {HIDDEN} was read"),
        (f"before\n{PEM}\nafter", f"before\n{HIDDEN}\nafter"),
        ("-----BEGIN EC PRIVATE KEY-----\ncut", HIDDEN),
        ("nats://alice:open@127.0.0.1:4222", f"nats://{HIDDEN}@127.0.0.1:4222"),
        ("Authorization: Bearer abc.def", f"Authorization: Bearer {HIDDEN}"),
        ('{"password": "open sesame"}', f'{{"password": "{HIDDEN} sesame"}}'),
        ("api_key=77af, other=1", f"api_key={HIDDEN}, other=1"),
        ("token " + "Ab3_" * 20, f"token {HIDDEN}"),
    ],
)
def test_a_secret_is_hidden_and_counted(text: str, told: str) -> None:
    redaction = BundleRedaction()
    assert redaction.text(text) == told
    assert redaction.hidden == 1


@pytest.mark.parametrize(
    "text",
    [
        f"entry 41 has hash {HASH}",
        "libcuda.so.1 at /usr/lib/x86_64-linux-gnu/libcuda.so.1",
        "the broker listens at 127.0.0.1:4222",
        "cgroup /sys/fs/cgroup/stoker is writable",
        "seed 7 of the simulated node, 3 secrets",
    ],
)
def test_what_says_nothing_of_people_or_places_stays(text: str) -> None:
    redaction = BundleRedaction()
    assert (redaction.text(text), redaction.hidden) == (text, 0)


def test_one_name_has_one_stand_in_in_texts_keys_and_replies() -> None:
    redaction = BundleRedaction()
    redaction.know_folder("/srv/gpu", "STATE")
    redaction.learn({"nodes": [{"node": "rack7-a"}], "by": "alice"})
    told = redaction.value({"rack7-a": ["alice on rack7-a", {"state": "ready", "node": "rack7-a"}]})
    assert told == {"node-1": ["user-1 on node-1", {"state": "ready", "node": "node-1"}]}
    assert redaction.text("/srv/gpu/log/agent.log") == "STATE/log/agent.log"
    assert redaction.text("/home/alice/data") == "path-1", "with all that it names"
    assert redaction.text("10.0.0.7 and 10.0.0.7") == "address-1 and address-1"
    assert redaction.text(PUBLIC) == redaction.text(f" {PUBLIC}").strip() == "identity-1"


@given(st.text(max_size=40), st.text(max_size=40), st.binary(min_size=32, max_size=32))
def test_no_seed_survives_wherever_it_stands(before: str, after: str, raw: bytes) -> None:
    seed = identity.of_raw(raw).seed
    redaction = BundleRedaction()
    assert seed not in redaction.text(f"{before} {seed} {after}")
    assert seed not in redaction.text(f'{before}"{seed}"{after}')
