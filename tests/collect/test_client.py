"""Client and server: whole sessions, every order but the right one, and the attacks on the protocol itself."""

from __future__ import annotations

import itertools
import math
import os
import random
import signal
import subprocess
import sys
import textwrap
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from veridp.collect import SCHEMES, Client, FileVault, MemoryVault, Reason, Refused, Session, SessionStage, Task
from veridp.collect.attacks import new_session, play_honest
from veridp.collect.client import Record
from veridp.collect.messages import Challenge, Context, Opening, SessionVerdict, promise, selected
from veridp.errors import BadInput

NOW = 1000.0
LATER = 1 << 30


def client_of(task: Task, rng: random.Random | None = None, vault: MemoryVault | None = None) -> Client:
    return Client(task.protocol, task.verifier, vault or MemoryVault(), rng or random.Random(1))


def begun(task: Task, seed: int = 0) -> Session:
    rng = random.Random(seed)
    return Session(Context(task.digest, rng.randbytes(16)), rng.randbytes(32), LATER)


def reason_of(step: Callable[[], object]) -> Reason:
    with pytest.raises(Refused) as refused:
        step()
    return refused.value.reason


@pytest.mark.parametrize("kind", SCHEMES)
def test_a_session_from_commitment_to_verdict(task: Task, kind: str, example: Callable[[Task], object]) -> None:
    task = replace(task, scheme=kind)
    session, client = begun(task), client_of(task)
    assert session.stage == SessionStage.INVITED
    session = session.committed(client.commit(session.invitation, example(task)), NOW, task.verifier)
    assert session.stage == SessionStage.CHALLENGED
    session = session.opened(client.open(session.challenge), NOW, task.verifier)
    assert session.stage == SessionStage.ACCEPTED
    assert session.verdict is not None
    assert client.finish(session.verdict).outputs == client.outputs
    assert client.verdict == session.verdict


def test_reports_have_the_law_of_the_mechanism(small_task: Callable[..., Task]) -> None:
    """χ² of 3000 reports of one item against (2, 1, 1, 1, 1)/6: above 33.4 once in 10^6 seeds."""
    task, rng = small_task("vgrr"), random.Random(4)
    found: Counter[int] = Counter()
    for _ in range(3000):
        verdict = play_honest(task, "cat", rng).verdict
        assert verdict is not None
        found[verdict.outputs[0]] += 1
    expected = [500, 500, 1000, 500, 500]
    assert sum((found[i] - e) ** 2 / e for i, e in enumerate(expected)) < 33.4


def test_every_wrong_order_is_refused(small_task: Callable[..., Task]) -> None:
    """All sequences of up to four steps; a step succeeds exactly if those before it that it needs have been done."""
    task = small_task("vgrr")
    reference = begun(task)
    script = client_of(task)
    commit = script.commit(reference.invitation, "bee")
    challenge = reference.committed(commit, NOW, task.verifier).challenge
    opening = script.open(challenge)
    verdict = reference.committed(commit, NOW, task.verifier).opened(opening, NOW, task.verifier).verdict
    assert verdict is not None
    for steps in itertools.product("cof", repeat=3):
        client, done = client_of(task), set[str]()
        for step in steps:
            allowed = {"c": True, "o": "c" in done, "f": {"c", "o"} <= done}[step]
            run = {
                "c": lambda: client.commit(reference.invitation, "bee"),  # noqa: B023
                "o": lambda: client.open(challenge),  # noqa: B023
                "f": lambda: client.finish(SessionVerdict(verdict.task, verdict.session, False, "expired", ())),  # noqa: B023
            }[step]
            if allowed:
                run()
                done.add(step)
            else:
                assert reason_of(run) == Reason.OUT_OF_ORDER
    with pytest.raises(Refused, match="out-of-order"):
        _ = reference.challenge
    assert reason_of(lambda: reference.opened(opening, NOW, task.verifier)) == Reason.OUT_OF_ORDER


def test_the_server_follows_its_rules_in_every_order(small_task: Callable[..., Task]) -> None:
    """All sequences of four messages, right and wrong, early and late, against the rules in a few lines."""
    task = small_task("vgrr")
    fresh, honest, other = begun(task), client_of(task), client_of(task, random.Random(9))
    first, second = (client.commit(fresh.invitation, "bee") for client in (honest, other))
    good = honest.open(Challenge(first.task, first.session, fresh.nonce))
    bad = replace(good, proof=bytes(len(good.proof)))
    messages: dict[str, Any] = {"A": first, "B": second, "g": good, "b": bad}
    arrivals = list(itertools.product("ABgb", [NOW, LATER]))
    for sequence in itertools.product(arrivals, repeat=3):
        session, committed, decided = fresh, "", ""
        for name, now in sequence:
            if name in "AB":
                due = None if committed == name else Reason.SECOND_COMMITMENT if committed else None
                due = Reason.EXPIRED if not committed and now == LATER else due
            elif not committed:
                due = Reason.OUT_OF_ORDER
            elif decided:
                due = None if decided == name else Reason.REPLAYED
            else:
                due = Reason.EXPIRED if now == LATER else None
            step: Any = session.committed if name in "AB" else session.opened
            if due is not None:
                assert reason_of(lambda: step(messages[name], now, task.verifier)) == due  # noqa: B023
                continue
            session = step(messages[name], now, task.verifier)
            committed = committed or (name if name in "AB" else "")
            decided = decided or (name if name in "gb" else "")
        accepted = session.verdict is not None and session.verdict.accepted
        assert accepted == ((committed, decided) == ("A", "g"))


def test_steps_may_be_repeated_and_not_be_changed(small_task: Callable[..., Task]) -> None:
    task = small_task("vgrr")
    session, client, other = begun(task), client_of(task), client_of(task, random.Random(9))
    commit = client.commit(session.invitation, "bee")
    challenged = session.committed(commit, NOW, task.verifier)
    assert challenged.committed(commit, NOW, task.verifier) == challenged
    second = other.commit(session.invitation, "cat")
    assert reason_of(lambda: challenged.committed(second, NOW, task.verifier)) == Reason.SECOND_COMMITMENT
    opening = client.open(challenged.challenge)
    assert client.open(challenged.challenge) == opening
    decided = challenged.opened(opening, NOW, task.verifier)
    assert decided.opened(opening, NOW, task.verifier) == decided
    changed = replace(opening, proof=opening.proof + b"x")
    assert reason_of(lambda: decided.opened(changed, NOW, task.verifier)) == Reason.REPLAYED


def test_expiry_burns_the_session(small_task: Callable[..., Task]) -> None:
    task = small_task("vgrr")
    session, client = begun(task), client_of(task)
    commit = client.commit(session.invitation, "bee")
    assert reason_of(lambda: session.committed(commit, LATER, task.verifier)) == Reason.EXPIRED
    challenged = session.committed(commit, NOW, task.verifier)
    opening = client.open(challenged.challenge)
    assert reason_of(lambda: challenged.opened(opening, LATER + 1, task.verifier)) == Reason.EXPIRED
    decided = challenged.opened(opening, NOW, task.verifier)
    assert decided.opened(opening, LATER + 1, task.verifier).verdict == decided.verdict  # a decision stays


# -------------------------------------------------------------------------------------------- malformed openings


def challenged_pair(task: Task, value: object = "bee") -> tuple[Session, Opening]:
    session, client = begun(task), client_of(task)
    session = session.committed(client.commit(session.invitation, value), NOW, task.verifier)
    return session, client.open(session.challenge)


def verdict_on(session: Session, opening: Opening, task: Task) -> str:
    verdict = session.opened(opening, NOW, task.verifier).verdict
    assert verdict is not None
    assert not verdict.accepted
    assert verdict.outputs == ()
    return verdict.reason


def test_wrong_openings_are_rejected_by_name(small_task: Callable[..., Task]) -> None:
    task = small_task("vgrr", epsilon=math.log(4))  # three entries stay closed
    session, good = challenged_pair(task)
    a, b, c = good.closed
    assert verdict_on(session, replace(good, closed=(a, b, b)), task) == Reason.DUPLICATE_INDEX
    assert verdict_on(session, replace(good, closed=(b, a, c)), task) == Reason.UNORDERED_INDEX
    assert verdict_on(session, replace(good, closed=(a, b, 99)), task) == Reason.INDEX_OUT_OF_RANGE
    assert verdict_on(session, replace(good, closed=(a, b)), task) == Reason.WRONG_COUNTS
    assert verdict_on(session, replace(good, values=good.values + b"\0"), task) == Reason.WRONG_LENGTH
    assert verdict_on(session, replace(good, values=b"\7" + good.values[1:]), task) == Reason.VALUE_OUT_OF_RANGE
    assert verdict_on(session, replace(good, values=good.values[:1] * 5), task) == Reason.WRONG_COUNTS
    assert verdict_on(session, replace(good, values=good.values[::-1]), task) == Reason.WRONG_OPENING
    assert verdict_on(session, replace(good, proof=good.proof[1:]), task) == Reason.WRONG_LENGTH
    assert session.commit is not None
    (chosen,) = selected(session.context, session.nonce, session.commit.commitment, task.protocol.layout)
    others = sorted({chosen, *[i for i in range(8) if i != chosen][:2]})
    assert verdict_on(session, replace(good, closed=tuple(others)), task) == Reason.CHALLENGE_NOT_OPENED


def test_messages_of_other_tasks_and_sessions_are_refused(small_task: Callable[..., Task]) -> None:
    task, other = small_task("vgrr"), small_task("vgrr", name="other")
    session, opening = challenged_pair(task)
    foreign, of_other_task = challenged_pair(other)
    assert reason_of(lambda: session.opened(of_other_task, NOW, task.verifier)) == Reason.WRONG_TASK
    of_other_session = replace(opening, session=bytes(16))
    assert reason_of(lambda: session.opened(of_other_session, NOW, task.verifier)) == Reason.WRONG_SESSION
    renamed = replace(of_other_task, task=task.digest, session=session.context.session)
    assert verdict_on(session, renamed, task) in (Reason.WRONG_OPENING, Reason.CHALLENGE_NOT_OPENED)
    assert foreign.context.task != session.context.task


# -------------------------------------------------------------------------------------------------------- attacks


def test_double_select_is_refused_and_would_tell_the_value(small_task: Callable[..., Task]) -> None:
    """Opened to two challenges, some value shows more copies than the others: that is the client's."""
    task = small_task("vgrr")
    session, client = begun(task), client_of(task)
    commit = client.commit(session.invitation, "dog")
    client.open(session.committed(commit, NOW, task.verifier).challenge)
    second = Challenge(commit.task, commit.session, bytes(32))
    assert reason_of(lambda: client.open(second)) == Reason.SECOND_CHALLENGE
    again = begun(task, seed=7)
    assert reason_of(lambda: client.commit(again.invitation, "dog")) == Reason.SECOND_CHALLENGE

    learnt = Counter[int]()
    layout, rng = task.protocol.layout, random.Random(3)
    for _ in range(40):  # what a client without memory would tell
        vector = layout.draw_vector(task.protocol.counts(3, b""), rng)
        shown = set[int]()
        for chosen in range(layout.length):
            shown |= set(range(layout.length)) - set(layout.draw_closed(vector, (chosen,), rng))
        most, _ = Counter(vector[i] for i in shown).most_common(1)[0]
        learnt[most] += 1
    assert learnt == {3: 40}


def test_a_server_that_breaks_its_promise_gets_no_opening(small_task: Callable[..., Task]) -> None:
    task = small_task("vgrr")
    session, client = begun(task), client_of(task)
    commit = client.commit(session.invitation, "dog")
    other = Challenge(commit.task, commit.session, bytes(32))
    assert reason_of(lambda: client.open(other)) == Reason.BROKEN_PROMISE
    assert session.invitation.promise == promise(session.context, session.nonce)


def test_a_server_that_lies_about_the_report_is_caught(small_task: Callable[..., Task]) -> None:
    task = small_task("vgrr")
    session, client = begun(task), client_of(task)
    session = session.committed(client.commit(session.invitation, "dog"), NOW, task.verifier)
    session = session.opened(client.open(session.challenge), NOW, task.verifier)
    assert session.verdict is not None
    wrong = replace(session.verdict, outputs=((session.verdict.outputs[0] + 1) % 5,))
    assert reason_of(lambda: client.finish(wrong)) == Reason.WRONG_VERDICT
    elsewhere = replace(session.verdict, session=bytes(16))
    assert reason_of(lambda: client.finish(elsewhere)) == Reason.WRONG_SESSION
    assert client.verdict is None


def test_neither_side_can_grind_the_challenge(small_task: Callable[..., Task]) -> None:
    """A client that tries many commitments without the nonce is selected as if it had tried one.

    1200 sessions, each with the best of 20 commitments by a guess at the nonce: χ²(5) above 35.9 once in 10^6.
    """
    task, rng = small_task("vgrr"), random.Random(6)
    layout, found = task.protocol.layout, Counter[int]()
    for _ in range(1200):
        session = new_session(task, rng)
        guess = rng.randbytes(32)
        commitments = [rng.randbytes(32) for _ in range(20)]
        ground = next((c for c in commitments if selected(session.context, guess, c, layout) == (0,)), commitments[0])
        found[selected(session.context, session.nonce, ground, layout)[0]] += 1
    assert sum((found[i] - 200) ** 2 / 200 for i in range(6)) < 35.9
    with_nonce = Counter(
        next(
            (
                j
                for c in (rng.randbytes(32) for _ in range(60))
                if (j := selected(session.context, session.nonce, c, layout)[0]) == 0
            ),
            -1,
        )
        for _ in range(50)
    )
    assert with_nonce[0] >= 49  # with the nonce in hand it would work: (5/6)^60 is 2e-5


def test_selections_are_uniform_in_every_block(small_task: Callable[..., Task]) -> None:
    """χ² in each of 3 blocks of 6 entries, 3000 draws; three tests at once in 10^6 each."""
    task, rng = small_task("voue"), random.Random(2)
    found = [Counter[int]() for _ in range(3)]
    for _ in range(3000):
        context = Context(task.digest, rng.randbytes(16))
        for block, chosen in enumerate(selected(context, rng.randbytes(32), b"c", task.protocol.layout)):
            found[block][chosen] += 1
    for counts in found:
        assert sum((counts[i] - 500) ** 2 / 500 for i in range(6)) < 35.9


# ---------------------------------------------------------------------------------------------------------- vault


def test_a_client_made_anew_goes_on_where_it_was(small_task: Callable[..., Task], tmp_path: Path) -> None:
    task, path = small_task("vgrr"), tmp_path / "state"
    session = begun(task)

    def revived() -> Client:
        return Client(task.protocol, task.verifier, FileVault(path))

    commit = revived().commit(session.invitation, "bee")
    assert revived().commit(session.invitation, "elk") == commit
    session = session.committed(commit, NOW, task.verifier)
    opening = revived().open(session.challenge)
    assert revived().open(session.challenge) == opening
    assert reason_of(lambda: revived().open(replace(session.challenge, nonce=bytes(32)))) == Reason.SECOND_CHALLENGE
    session = session.opened(opening, NOW, task.verifier)
    assert session.verdict is not None
    assert revived().finish(session.verdict).accepted
    assert revived().verdict == session.verdict
    assert path.stat().st_mode & 0o077 == 0


def test_the_state_file_forgets_the_value_with_the_verdict(small_task: Callable[..., Task], tmp_path: Path) -> None:
    """Of the record after the verdict, nothing depends on what was committed to but the commitment and the report."""
    task, path = small_task("vgrr"), tmp_path / "state"
    session = begun(task)
    client = Client(task.protocol, task.verifier, FileVault(path), random.Random(3))
    session = session.committed(client.commit(session.invitation, "bee"), NOW, task.verifier)
    opening = client.open(session.challenge)
    before = Record.unpacked(path.read_bytes())
    session = session.opened(opening, NOW, task.verifier)
    assert session.verdict is not None
    client.finish(session.verdict)
    kept = path.read_bytes()
    assert before.secret not in kept
    assert bytes(before.vector) not in kept
    after = Record.unpacked(kept)
    assert (after.secret, after.vector, after.closed) == (b"", (), ())
    revived = Client(task.protocol, task.verifier, FileVault(path))
    assert revived.finish(session.verdict) == session.verdict  # the answer may come twice
    assert reason_of(lambda: revived.finish(replace(session.verdict, accepted=False))) == Reason.WRONG_VERDICT
    assert reason_of(lambda: revived.open(session.challenge)) == Reason.OUT_OF_ORDER
    assert reason_of(lambda: revived.commit(begun(task, seed=9).invitation, "bee")) == Reason.SECOND_CHALLENGE


def test_the_challenge_is_kept_before_it_is_answered(small_task: Callable[..., Task]) -> None:
    """A vault that fails to save: the client must not hand out the opening."""

    class Full(MemoryVault):
        def save(self, record: bytes) -> None:
            if self.record is not None:
                raise BadInput("no space left")
            super().save(record)

    task = small_task("vgrr")
    session = begun(task)
    client = Client(task.protocol, task.verifier, Full(), random.Random(1))
    session = session.committed(client.commit(session.invitation, "bee"), NOW, task.verifier)
    with pytest.raises(BadInput, match="no space"):
        client.open(session.challenge)
    assert reason_of(lambda: client.outputs) == Reason.OUT_OF_ORDER


def test_a_client_killed_while_it_opens_has_kept_the_challenge(small_task: Callable[..., Task], tmp_path: Path) -> None:
    """The process is killed the moment `open` returns; what it kept answers the same challenge the same way."""
    task, path = small_task("vgrr"), tmp_path / "state"
    session = begun(task)
    script = textwrap.dedent(f"""
        import os, signal
        from pathlib import Path
        from veridp.collect import Client, FileVault, Task
        from veridp.collect.messages import Challenge, Invitation, decode
        task = Task.from_json({task.to_json()!r})
        client = Client(task.protocol, task.verifier, FileVault(Path({str(path)!r})))
        context = decode(bytes.fromhex({_hex(session.invitation)!r}), Invitation)
        commit = client.commit(context, "bee")
        opening = client.open(Challenge(commit.task, commit.session, bytes.fromhex({session.nonce.hex()!r})))
        os.kill(os.getpid(), signal.SIGKILL)
    """)
    run = subprocess.run([sys.executable, "-c", script], check=False)  # noqa: S603
    assert run.returncode == -signal.SIGKILL
    client = Client(task.protocol, task.verifier, FileVault(path))
    assert reason_of(lambda: client.open(replace(_challenge(session), nonce=bytes(32)))) == Reason.SECOND_CHALLENGE
    session = session.committed(client.commit(session.invitation, "bee"), NOW, task.verifier)
    decided = session.opened(client.open(session.challenge), NOW, task.verifier)
    assert decided.stage == SessionStage.ACCEPTED


def _challenge(session: Session) -> Challenge:
    return Challenge(session.context.task, session.context.session, session.nonce)


def _hex(message: object) -> str:
    from veridp.collect.messages import Message, encode

    assert isinstance(message, Message)
    return encode(message).hex()


def test_a_vault_is_used_by_one_process_at_a_time(tmp_path: Path) -> None:
    vault = FileVault(tmp_path / "state")
    with vault.held(), pytest.raises(BadInput, match="in use"), vault.held():
        pass
    with vault.held():
        pass


def test_a_damaged_vault_is_refused(small_task: Callable[..., Task], tmp_path: Path) -> None:
    path = tmp_path / "state"
    path.write_bytes(b"not a record")
    task = small_task("vgrr")
    assert reason_of(lambda: Client(task.protocol, task.verifier, FileVault(path))) == Reason.MALFORMED


def test_a_vault_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    with pytest.raises(BadInput, match="state file"):
        FileVault(tmp_path / "missing" / "state").save(b"x")
    assert not os.path.exists(tmp_path / "missing")


def test_nobody_lays_out_the_file_that_the_state_goes_to(tmp_path: Path) -> None:
    """In a folder that others write to, the record goes neither to their file nor to where their link leads."""
    vault, theirs = FileVault(tmp_path / "state"), tmp_path / "theirs"
    for lay_out in (lambda fresh: fresh.symlink_to(theirs), lambda fresh: os.link(theirs, fresh)):
        theirs.touch(mode=0o666)
        lay_out(tmp_path / "state.new")
        vault.save(b"secret")
        assert (theirs.read_bytes(), vault.load()) == (b"", b"secret")
        assert vault.path.stat().st_mode & 0o077 == 0
