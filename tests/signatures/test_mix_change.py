"""Members added to a mix that is there, and members removed from it."""

from __future__ import annotations

import pytest

from statsnet.errors import UsageError
from statsnet.signatures.documents import SpecMember
from statsnet.signatures.mix_change import Addition, MixChange, parse_addition

MIX = [
    SpecMember(name=name, weight=weight, signature="sha256:" + "0" * 64, latency_s=1.0)
    for name, weight in (("cv/a", 0.5), ("cv/b", 0.3), ("nlp/b", 0.2))
]


def weights(change: MixChange) -> dict[str, float]:
    return {m.name: weight for m, weight in change.staying(MIX)}


def test_those_that_stay_keep_their_proportions() -> None:
    assert weights(MixChange()) == {m.name: m.weight for m in MIX}
    added = (Addition(name="x", share=0.1), Addition(name="y", share=0.1))
    assert weights(MixChange(added=added)) == pytest.approx({"cv/a": 0.4, "cv/b": 0.24, "nlp/b": 0.16})
    assert weights(MixChange(added=added, removed=("a",))) == pytest.approx({"cv/b": 0.48, "nlp/b": 0.32})
    assert weights(MixChange(removed=("cv/b", "cv/b"))) == pytest.approx({"cv/a": 5 / 7, "nlp/b": 2 / 7})


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (MixChange(removed=("b",)), "stands for several members"),
        (MixChange(removed=("cv/c",)), "did you mean cv/"),
        (MixChange(removed=("astrology",)), "statsnet show PROXY"),
        (MixChange(removed=("a", "cv/b", "nlp/b")), "no member of the proxy's mix stays"),
        (MixChange(added=(Addition(name="x", share=0.6), Addition(name="y", share=0.4))), "takes 100%"),
    ],
)
def test_what_can_not_be_changed(change: MixChange, text: str) -> None:
    with pytest.raises(UsageError) as refused:
        change.staying(MIX)
    assert text in str(refused.value)


def test_an_addition_has_a_name_and_a_share() -> None:
    assert parse_addition(" a:b.json : 0.25") == Addition(name="a:b.json", share=0.25)
    for text in ("new.json", "new.json:", ":0.1", "new.json:0", "new.json:1", "new.json:nan", "new.json:much", ""):
        with pytest.raises(UsageError, match="does not say what is added"):
            parse_addition(text)
