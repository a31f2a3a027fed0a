"""A checkpoint survives a kill at every point of a save, a full disk, and damage is never loaded."""

from __future__ import annotations

import errno
import json
import os
import resource
import shutil
import warnings
from pathlib import Path

import pytest
import torch

from seq2see.core.errors import UserError
from seq2see.core.files import MANIFEST, file_entry, manifest_bytes
from seq2see.core.seeds import generator
from seq2see.training import checkpoints
from seq2see.training.checkpoints import DiskFull, list_checkpoints, load, newest_checkpoint, save, verify


def content(number: int):
    """Tensors and state that identify the save they come from."""
    tensors = {
        "model": {"a": torch.arange(7.0) + number, "b": torch.tensor(number)},
        "optimizer": {"a/step": torch.full((3, 5), float(number), dtype=torch.bfloat16)},
    }
    return tensors, {"epoch": number, "note": "第几次"}


def put(folder: Path, step: int, number: int | None = None, keep: int = 9) -> Path:
    return save(folder, step, *content(step if number is None else number), keep=keep)


def number_in(checkpoint) -> int:
    """Which save a checkpoint holds; every value in it must agree."""
    number = checkpoint.state["epoch"]
    tensors, state = content(number)
    assert checkpoint.state == state
    for group, expected in tensors.items():
        stored = checkpoint.tensors(group)
        assert stored.keys() == expected.keys()
        for name in expected:
            assert stored[name].dtype == expected[name].dtype
            assert torch.equal(stored[name], expected[name])
    return number


def steps(folder: Path) -> list[str]:
    return sorted(path.name for path in folder.iterdir())


def silent(message: str) -> None:
    raise AssertionError(f"a good checkpoint was rejected: {message}")


def fork(work) -> int:
    """Run `work` in a child process that never returns here; return its exit code."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # torch may have threads; the child needs none
        child = os.fork()
    if child == 0:
        try:
            work()
        except BaseException:
            os._exit(99)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


@pytest.fixture
def quick(monkeypatch):
    """Small chunks, so that a tiny file has many crash points; no waiting for the disk."""
    monkeypatch.setattr(checkpoints, "CHUNK_SIZE", 160)
    monkeypatch.setattr(os, "fsync", lambda descriptor: None)


def test_what_is_saved_is_loaded(tmp_path):
    path = put(tmp_path / "new" / "folder", 500)
    assert path.name == "step-000500"
    assert steps(path) == [MANIFEST, "model.safetensors", "optimizer.safetensors", "state.json"]
    checkpoint = newest_checkpoint(tmp_path / "new" / "folder", silent)
    assert (checkpoint.path, checkpoint.step, number_in(checkpoint)) == (path, 500, 500)
    assert verify(path) == []


def test_there_may_be_no_checkpoint(tmp_path):
    assert newest_checkpoint(tmp_path, silent) is None
    assert newest_checkpoint(tmp_path / "nowhere", silent) is None


def test_the_manifest_holds_sizes_and_hashes(tmp_path):
    path = save(tmp_path, 7, {"model": {}}, {}, keep=1)
    manifest = json.loads((path / MANIFEST).read_text())
    assert (manifest["schema"], manifest["step"]) == (1, 7)
    assert manifest["files"]["state.json"] == {  # the well-known SHA-256 of "{}"
        "size": 2,
        "sha256": "44136fa355b3678a1146ad16f7e8649e94fb4fc21fe77e8310c060f61caaff8a",
    }


def test_newest_is_by_number_not_by_spelling(tmp_path):
    put(tmp_path, 999_999)
    put(tmp_path, 1_000_000)
    assert newest_checkpoint(tmp_path, silent).step == 1_000_000


def test_tensors_may_have_any_memory_layout(tmp_path):
    transposed = torch.arange(6.0).view(2, 3).T
    path = save(tmp_path, 1, {"model": {"turned": transposed, "learned": torch.nn.Parameter(transposed)}}, {}, keep=1)
    assert all(torch.equal(stored, transposed) for stored in load(path).tensors("model").values())


def test_files_are_flushed_before_they_are_named_and_the_name_afterwards(tmp_path, monkeypatch):
    """A power cut may otherwise leave a name with nothing behind it."""
    done = []
    monkeypatch.setattr(checkpoints, "_crash_point", lambda name: done.append(name.split()[0]))
    monkeypatch.setattr(checkpoints.os, "fsync", lambda number: done.append("file"))
    monkeypatch.setattr(checkpoints, "sync_folder", lambda folder: done.append(folder.name[:4]))
    put(tmp_path / "saved", 1)
    files = done[done.index("open") : done.index("flush")]
    assert (files.count("open"), files.count("file"), files[-1]) == (4, 4, "file")
    assert done[done.index("flush") :] == ["flush", ".tmp", "name", "flush", "save"]


def test_a_link_to_a_checkpoint_elsewhere_goes_and_the_checkpoint_stays(tmp_path):
    moved = put(tmp_path / "elsewhere", 1)
    (tmp_path / "here").mkdir()
    (tmp_path / "here" / moved.name).symlink_to(moved)
    put(tmp_path / "here", 2, keep=1)
    assert steps(tmp_path / "here") == ["step-000002"]
    assert verify(moved) == []


def test_the_folder_that_a_process_of_another_user_is_writing_stays(tmp_path, monkeypatch):
    def forbidden(number: int, signal: int) -> None:
        raise PermissionError

    monkeypatch.setattr(checkpoints.os, "kill", forbidden)
    (tmp_path / ".tmp-1-abc").mkdir()
    put(tmp_path, 1)
    assert steps(tmp_path) == [".tmp-1-abc", "step-000001"]


def test_only_the_newest_stay_and_other_files_are_left_alone(tmp_path):
    (tmp_path / "step-notes").mkdir()
    (tmp_path / "report.txt").write_text("mine")
    for step in (100, 200, 300, 400):
        put(tmp_path, step, keep=2)
    assert steps(tmp_path) == ["report.txt", "step-000300", "step-000400", "step-notes"]


def test_rotation_never_removes_the_one_just_written_nor_a_higher_number(tmp_path):
    for step in (100, 200, 900):
        put(tmp_path, step)
    (tmp_path / "step-000900" / "state.json").write_text("{}")  # so the run resumed from 200
    put(tmp_path, 300, keep=1)
    assert steps(tmp_path) == ["step-000300", "step-000900"]
    with pytest.raises(UserError, match="at least one"):
        put(tmp_path, 400, keep=0)


def test_saving_the_same_again_changes_nothing(tmp_path):
    before = put(tmp_path, 100).stat().st_ino
    assert put(tmp_path, 100).stat().st_ino == before
    assert steps(tmp_path) == ["step-000100"]


@pytest.mark.parametrize("damaged", [False, True])
def test_another_checkpoint_of_the_same_step_is_replaced(tmp_path, damaged):
    path = put(tmp_path, 100, number=1)
    if damaged:
        (path / "model.safetensors").write_bytes(b"")
    put(tmp_path, 100, number=2)
    assert number_in(newest_checkpoint(tmp_path, silent)) == 2
    assert steps(tmp_path) == ["step-000100"]


def test_leftovers_of_dead_processes_go_and_those_of_living_ones_stay(tmp_path):
    def leave() -> None:
        (tmp_path / f".tmp-{os.getpid()}-aa").mkdir()

    assert fork(leave) == 0
    assert len(steps(tmp_path)) == 1
    (tmp_path / f".tmp-{os.getppid()}-bb").mkdir()
    (tmp_path / f".tmp-{os.getpid()}-cc").mkdir()  # an earlier process had our process id
    put(tmp_path, 100)
    assert steps(tmp_path) == [f".tmp-{os.getppid()}-bb", "step-000100"]


def lone(folder: Path) -> None:
    """There was no checkpoint before."""


def rotating(folder: Path) -> None:
    put(folder, 100, number=1)
    put(folder, 200, number=1)


def again(folder: Path) -> None:
    """The only checkpoint has the step that is saved, with other content."""
    put(folder, 300, number=1)


def again_damaged(folder: Path) -> None:
    put(folder, 200, number=1)
    (put(folder, 300, number=3) / "state.json").write_bytes(b"")


def crashed_before(folder: Path) -> None:
    """An earlier kill left an old one as `.replaced`, another under its name, and a half-written one."""
    put(folder, 300, number=1)
    (folder / "step-000300").rename(folder / "step-000300.replaced")
    put(folder, 200, number=3)
    shutil.copytree(folder / "step-000200", folder / "step-000300")
    shutil.copytree(folder / "step-000200", folder / f".tmp-{os.getpid()}-dd")
    (folder / f".tmp-{os.getpid()}-dd" / "state.json").unlink()


SITUATIONS = [lone, rotating, again, again_damaged, crashed_before]


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_kill_at_any_point_leaves_the_previous_or_the_new_one(tmp_path, quick, situation):
    """Exhaustive: the process ends at point 0, then at point 1, and so on, until a save comes through."""
    outcomes, point = [], 0
    while not outcomes or outcomes[-1] != "through":
        folder = tmp_path / f"killed-{point}"
        folder.mkdir()
        situation(folder)
        before = newest_checkpoint(folder, lambda message: None)
        damaged = [path for _, path in list_checkpoints(folder) if verify(path)]
        remaining = point

        def kill(name: str) -> None:
            nonlocal remaining
            if remaining == 0:
                os._exit(9)
            remaining -= 1

        def work(folder=folder) -> None:
            checkpoints._crash_point = kill  # in the child alone
            put(folder, 300, number=2, keep=1)

        code = fork(work)
        assert code in (0, 9)
        after = newest_checkpoint(folder, lambda message: None)
        loaded = None if after is None else number_in(after)
        assert loaded in (2, None if before is None else 1)
        assert [path for _, path in list_checkpoints(folder) if verify(path) and path not in damaged] == []
        outcomes.append("through" if code == 0 else loaded)
        put(folder, 300, number=2, keep=1)  # the next save tidies up
        assert number_in(newest_checkpoint(folder, silent)) == 2
        assert steps(folder) == ["step-000300"]
        point += 1
    assert len(outcomes) > 15
    assert 2 in outcomes  # some kills came after the new one was complete


@pytest.mark.parametrize("situation", SITUATIONS)
def test_a_full_disk_at_any_point_leaves_the_previous_one(tmp_path, monkeypatch, quick, situation):
    names: list[str] = []
    monkeypatch.setattr(checkpoints, "_crash_point", names.append)
    situation(tmp_path / "rehearsal")
    names.clear()
    put(tmp_path / "rehearsal", 300, number=2, keep=1)
    for index, name in enumerate(names.copy()):
        folder = tmp_path / str(index)
        monkeypatch.setattr(checkpoints, "_crash_point", lambda name: None)
        situation(folder)
        before = newest_checkpoint(folder, lambda message: None)
        remaining = iter(range(index))

        def full(name: str, remaining=remaining) -> None:
            if next(remaining, None) is None:
                raise OSError(errno.ENOSPC, "No space left on device")

        monkeypatch.setattr(checkpoints, "_crash_point", full)
        with pytest.raises(DiskFull, match="No space left on device"):
            put(folder, 300, number=2, keep=1)
        after = newest_checkpoint(folder, lambda message: None)
        assert (None if after is None else number_in(after)) in (2, None if before is None else 1)
        assert name.startswith(("delete", "sweep")) or not list(folder.glob(".tmp-*"))


@pytest.mark.parametrize("limit", [0, 1, 10, 64, 97, 100, 150, 200, 210, 300, 500, 700])
def test_a_file_that_may_not_grow_is_a_full_disk(tmp_path, quick, limit):
    put(tmp_path, 100)
    largest = max(path.stat().st_size for path in (tmp_path / "step-000100").iterdir())
    assert largest > 500

    def work() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
        try:
            put(tmp_path, 200)
        except DiskFull:
            os._exit(7)

    assert fork(work) == (7 if limit < largest else 0)
    assert number_in(newest_checkpoint(tmp_path, silent)) == (100 if limit < largest else 200)
    assert not list(tmp_path.glob(".tmp-*"))


def test_a_save_does_not_start_without_free_space(tmp_path, monkeypatch):
    tensors = {"model": {"a": torch.zeros(25)}}  # 100 bytes, so 120 are needed
    usage = shutil.disk_usage(tmp_path)
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage._replace(free=119))
    with pytest.raises(DiskFull, match="needs"):
        save(tmp_path, 1, tensors, {}, keep=1)
    assert steps(tmp_path) == []
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage._replace(free=120))
    save(tmp_path, 1, tensors, {}, keep=1)


def test_a_folder_that_cannot_be_written_is_a_plain_error(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(UserError, match="could not be written") as caught:
        put(tmp_path / "file" / "below", 1)
    assert not isinstance(caught.value, DiskFull)


def test_what_the_disk_did_not_store_is_noticed_before_anything_is_removed(tmp_path, monkeypatch):
    put(tmp_path, 100)
    true_entry = checkpoints.file_entry
    monkeypatch.setattr(checkpoints, "file_entry", lambda content: true_entry(content + b"!"))
    with pytest.raises(UserError, match="did not store"):
        put(tmp_path, 200, keep=1)
    assert steps(tmp_path) == ["step-000100"]
    assert number_in(newest_checkpoint(tmp_path, silent)) == 100


def change(path: Path, old: bytes, new: bytes) -> None:
    content = path.read_bytes()
    assert old in content
    path.write_bytes(content.replace(old, new, 1))


def test_each_fault_has_its_message(tmp_path):
    def fresh() -> Path:
        shutil.rmtree(tmp_path / "step-000200", ignore_errors=True)
        return put(tmp_path, 200)

    path = fresh()
    (path / "model.safetensors").unlink()
    (path / "notes.txt").write_text("")
    (path / "state.json").write_bytes(b"")
    assert verify(path) == [
        "model.safetensors is missing",
        "notes.txt is not in MANIFEST.json",
        "state.json has 0 bytes instead of 41",
    ]
    path = fresh()
    change(path / "state.json", b"200", b"201")
    assert verify(path) == ["state.json is damaged"]
    path = fresh()
    (path / "state.json").rename(tmp_path / "state.json")
    (path / "state.json").symlink_to(tmp_path / "state.json")
    assert verify(path) == ["state.json is not a regular file"]
    path = fresh()
    change(path / MANIFEST, b"{", b"")
    assert verify(path) == ["MANIFEST.json is not a valid JSON manifest"]
    path = fresh()
    change(path / MANIFEST, b" ", b"\t")  # the same JSON, another byte
    assert verify(path) == ["MANIFEST.json is damaged"]
    path = fresh()
    change(path / MANIFEST, b'"schema": 1', b'"schema": 2')
    assert verify(path) == ["its format is 2, and only format 1 is supported"]
    path = fresh()
    (path / MANIFEST).unlink()
    assert verify(path) == ["MANIFEST.json is missing"]
    assert verify(tmp_path / "step-000999") == ["MANIFEST.json is missing"]


def test_swapped_and_copied_folders_are_noticed(tmp_path):
    put(tmp_path, 100)
    put(tmp_path, 200)
    (tmp_path / "step-000100").rename(tmp_path / "other")
    (tmp_path / "step-000200").rename(tmp_path / "step-000100")
    (tmp_path / "other").rename(tmp_path / "step-000200")
    messages: list[str] = []
    assert newest_checkpoint(tmp_path, messages.append) is None
    assert len(messages) == 2
    assert "step-000200" in messages[0]
    assert "holds step 100" in messages[0]


def forged(folder: Path, files: dict[str, bytes], entries=None, step=5) -> Path:
    """A folder with a valid manifest of whatever content."""
    path = folder / "step-000005"
    path.mkdir()
    for name, inside in files.items():
        (path / name).write_bytes(inside)
    entries = {name: file_entry(inside) for name, inside in files.items()} if entries is None else entries
    (path / MANIFEST).write_bytes(manifest_bytes(step, entries))
    return path


@pytest.mark.parametrize("entries", [[], {"state.json": 3}, {"state.json": {"size": 2}}, {}])
def test_a_manifest_of_another_form_is_a_fault_not_a_crash(tmp_path, entries):
    assert verify(forged(tmp_path, {"state.json": b"{}"}, entries))


def test_a_checkpoint_without_state_is_a_fault(tmp_path):
    assert verify(forged(tmp_path, {})) == ["state.json is missing"]


@pytest.mark.parametrize("step", [None, "5", 6])
def test_a_manifest_of_another_step_is_a_fault(tmp_path, step):
    assert verify(forged(tmp_path, {"state.json": b"{}"}, step=step))


@pytest.mark.parametrize("text", [b"[]", b"null", b'"schema"', b"\xff", b"[" * 100_000, b'{"schema": NaN}'])
def test_a_manifest_that_is_something_else_is_a_fault_not_a_crash(tmp_path, text):
    path = forged(tmp_path, {"state.json": b"{}"})
    (path / MANIFEST).write_bytes(text)
    assert len(verify(path)) == 1


def test_content_that_cannot_be_read_is_a_plain_error(tmp_path):
    with pytest.raises(UserError, match="not JSON"):
        load(forged(tmp_path, {"state.json": b"{"}))
    shutil.rmtree(tmp_path / "step-000005")
    checkpoint = load(forged(tmp_path, {"state.json": b"{}", "model.safetensors": b"nonsense"}))
    with pytest.raises(UserError, match="holds no tensors"):
        checkpoint.tensors("model")
    with pytest.raises(UserError, match="Did you mean 'model'"):
        checkpoint.tensors("modle")


def test_a_file_swapped_after_the_check_is_noticed(tmp_path):
    put(tmp_path, 100)
    put(tmp_path, 200)
    checkpoint = newest_checkpoint(tmp_path, silent)
    shutil.copy(tmp_path / "step-000100" / "model.safetensors", checkpoint.path / "model.safetensors")
    with pytest.raises(UserError, match="changed after it was checked"):
        checkpoint.tensors("model")
    (checkpoint.path / "model.safetensors").unlink()
    with pytest.raises(UserError, match="cannot be read"):
        checkpoint.tensors("model")


# Damage of every kind -----------------------------------------------------------------------------------

STEPS = (100, 200, 300)
Folders = dict[str, dict[str, bytes]]


def damage(folders: Folders, rng) -> None:
    """One random accident; the folders are dictionaries of file names and bytes."""
    name = str(rng.choice(sorted(folders)))
    file = str(rng.choice(sorted(folders[name])))
    inside = bytearray(folders[name][file])
    other = str(rng.choice(sorted(folders)))
    match str(rng.choice(["cut", "flip", "zero", "lose", "swap", "swap folders", "copy", "add"])):
        case "cut":
            del inside[int(rng.integers(len(inside))) :]
            folders[name][file] = bytes(inside)
        case "flip":
            inside[rng.integers(len(inside))] ^= 1 << int(rng.integers(8))
            folders[name][file] = bytes(inside)
        case "zero":
            start = int(rng.integers(len(inside)))
            inside[start:] = bytes(len(inside) - start)
            folders[name][file] = bytes(inside)
        case "lose":
            del folders[name][file]
        case "swap":
            if file in folders[other]:
                folders[name][file], folders[other][file] = folders[other][file], folders[name][file]
        case "swap folders":
            folders[name], folders[other] = folders[other], folders[name]
        case "copy":
            folders["step-000400"] = dict(folders[name])
        case "add":
            folders[name][f"{file}.1"] = bytes(inside)
    for files in [files for files in folders.values() if not files]:
        files["empty"] = b"x"  # a folder without files is still there


def whole_copy(folder: Path) -> Folders:
    return {path.name: {file.name: file.read_bytes() for file in path.iterdir()} for path in folder.iterdir()}


@pytest.mark.parametrize("accidents", [1, 2, 4])
def test_no_damaged_checkpoint_is_ever_loaded(tmp_path, accidents):
    """600 folders with accidents: the newest intact one is loaded, the others are named."""
    for step in STEPS:
        put(tmp_path / "good", step)
    good = whole_copy(tmp_path / "good")
    for seed in range(200):
        rng = generator(seed, "damage", accidents)
        folders = {name: dict(files) for name, files in good.items()}
        for _ in range(accidents):
            damage(folders, rng)
        here = tmp_path / str(seed)
        for name, files in folders.items():
            (here / name).mkdir(parents=True)
            for file, inside in files.items():
                (here / name / file).write_bytes(inside)
        intact = [name for name in sorted(folders, reverse=True) if folders[name] == good.get(name)]
        expected = intact[0] if intact else None
        rejected: list[str] = []
        checkpoint = newest_checkpoint(here, rejected.append)
        assert (checkpoint and checkpoint.path.name) == expected, f"seed {seed}"
        assert checkpoint is None or number_in(checkpoint) == checkpoint.step
        worse = [name for name in sorted(folders, reverse=True) if expected is None or name > expected]
        assert len(rejected) == len(worse)
        assert all(name in message for name, message in zip(worse, rejected, strict=True))
        assert sorted(path.name for path in here.iterdir()) == sorted(folders)  # nothing was deleted


def test_the_oldest_checkpoints_are_given_up_for_one_that_does_not_fit_but_the_newest_intact_one_stays(
    tmp_path, monkeypatch
):
    for step in (1, 2, 3):
        put(tmp_path, step)
    damage = next((tmp_path / "step-000003").glob("*.safetensors"))
    damage.write_bytes(b"")
    usage = shutil.disk_usage(tmp_path)

    def space(folder):
        return usage._replace(free=10**9 if len(list(tmp_path.glob("step-*"))) < 3 else 0)

    monkeypatch.setattr(shutil, "disk_usage", space)
    put(tmp_path, 4)
    assert steps(tmp_path) == ["step-000002", "step-000003", "step-000004"]
    monkeypatch.setattr(shutil, "disk_usage", lambda folder: usage._replace(free=0))
    with pytest.raises(DiskFull):
        put(tmp_path, 5)
    assert steps(tmp_path) == ["step-000004"]
