"""Two libraries of one process, in files that a third one imports: one takes the current GPU, one changes it."""

from __future__ import annotations

from pathlib import Path

import pytest
from devfix.around import Around
from devfix.discover import discover
from devfix.rules.default_device import DefaultDevice
from devfix.runner import run
from repositories import write

EMBEDDING = """\
class EmbeddingComponent:
    def __init__(self, settings):
        from llama_index.embeddings.huggingface import HuggingFaceEmbedding

        self.model = HuggingFaceEmbedding(model_name=settings.name)
"""
LLM = """\
class LLMComponent:
    def __init__(self, settings):
        from llama_index.llms import LlamaCPP

        self.model = LlamaCPP(settings.path, model_kwargs={"n_gpu_layers": -1})
"""
SERVICE = """\
from app.embedding import EmbeddingComponent
from app.llm import LLMComponent


class Service:
    def __init__(self, embedding: EmbeddingComponent, llm: LLMComponent):
        self.embedding, self.llm = embedding, llm
"""
FILES = {
    "pyproject.toml": "",
    "app/__init__.py": "",
    "app/embedding.py": EMBEDDING,
    "app/llm.py": LLM,
    "app/service.py": SERVICE,
}
CALL = "HuggingFaceEmbedding(model_name=settings.name)"


def messages(folder: Path, **changed: str) -> list[str]:
    write(folder, {**FILES, **{name.replace("__", "/") + ".py": text for name, text in changed.items()}})
    report = run(discover([str(folder)]), [DefaultDevice()], jobs=1, around=Around(str(folder)))
    assert not report.errors and not report.changed
    return [finding.message for result in report.results for finding in result.findings]


def test_found_and_left_to_a_person(tmp_path: Path) -> None:
    (message,) = messages(tmp_path)
    assert message.startswith("`HuggingFaceEmbedding` without `device` is on whichever GPU is current")
    assert "(`n_gpu_layers`, llm.py, line 5, in the same process)" in message


SAME = "from llama_cpp import Llama\n\nllm = Llama('a.gguf', n_gpu_layers=20)\n"


@pytest.mark.parametrize(
    ("changed", "count"),
    [
        ({"app__embedding": EMBEDDING + SAME, "app__llm": ""}, 1),
        ({"app__embedding": EMBEDDING.replace("(model_name=settings.name)", "('BAAI/bge-small')")}, 1),
        ({"app__embedding": EMBEDDING.replace(".name)", ".name, device=settings.device)")}, 0),
        ({"app__embedding": EMBEDDING.replace(".name)", ".name, **settings.more)")}, 0),
        ({"app__embedding": EMBEDDING.replace(CALL, "HuggingFaceEmbedding('a', settings.device)")}, 0),
        ({"app__llm": LLM.replace("-1", "0")}, 0),
        ({"app__llm": LLM.replace("-1", "settings.layers")}, 0),
        ({"app__service": SERVICE.replace("from app.llm import LLMComponent", "LLMComponent = None")}, 0),
        ({"app__service": SERVICE.replace("EmbeddingComponent", "Other")}, 0),
        ({"app__service": SERVICE.replace("app.embedding", "elsewhere")}, 0),
    ],
    ids=[
        "in one file", "by position", "a device", "perhaps a device", "perhaps a device by position",
        "the CPU", "a setting", "not together", "something else of the file", "one of that name",
    ],
)  # fmt: skip
def test_both_must_be_in_view(changed: dict[str, str], count: int, tmp_path: Path) -> None:
    assert len(messages(tmp_path, **changed)) == count
