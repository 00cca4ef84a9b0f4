"""Tracebacks as people paste them."""

from __future__ import annotations

import pytest
from devfix.errors.tracebacks import Frame, read

PYTHON = """\
Traceback (most recent call last):
  File "/home/ann/proj/train.py", line 12, in <module>
    main()
  File "/home/ann/proj/train.py", line 9, in main
    loss = model(x)
           ^^^^^^^^
  File "/opt/lib/python3.12/site-packages/torch/nn/modules/linear.py", line 125, in forward
    return F.linear(input, self.weight, self.bias)
RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!
"""

IPYTHON = """\
---------------------------------------------------------------------------
RuntimeError                              Traceback (most recent call last)
Cell In[7], line 3
      1 model.to(device)
      2 for x, y in loader:
----> 3     loss = criterion(model(x), y)

File ~/proj/model.py:44, in Net.forward(self, x)
     42 def forward(self, x):
     43     x = self.conv(x)
---> 44     return self.fc(x)

RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!
"""

OLD_IPYTHON = """\
RuntimeError                              Traceback (most recent call last)
<ipython-input-12-0a1b2c3d4e5f> in <module>
      2 for x, y in loader:
----> 3     loss = criterion(model(x), y)

/content/proj/model.py in forward(self, x)
     43     x = self.conv(x)
---> 44     return self.fc(x)

RuntimeError: Input and hidden tensors are not at the same device, found input tensor at cuda:0 and hidden
"""

PYTEST = """\
    def test_step():
        model = Net().cuda()
>       loss = model(torch.zeros(2, 3))

tests/test_step.py:14:
_ _ _ _ _ _ _ _ _ _ _ _ _
proj/model.py:44: in forward
    return self.fc(x)
E   RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!

tests/test_step.py:14: RuntimeError
"""

RICH = """\
╭─────────────────── Traceback (most recent call last) ────────────────────╮
│ /home/ann/proj/train.py:9 in main                                        │
│                                                                          │
│    8     for x in loader:                                                │
│ ❱  9         loss = model(x)                                             │
│   10                                                                     │
╰──────────────────────────────────────────────────────────────────────────╯
RuntimeError: Expected all tensors to be on the same device, but found at least two devices, cuda:0 and cpu!
"""

RANKS = """\
[rank1]: Traceback (most recent call last):
[rank1]:   File "/home/ann/proj/train.py", line 9, in main
[rank1]:     loss = model(x)
[rank1]: RuntimeError: Expected all tensors to be on the same device, but found at least two devices
"""


def frames(text: str) -> list[tuple[str, int, str, str]]:
    return [(frame.path, frame.line, frame.function, frame.code) for frame in read(text).frames]


def test_python() -> None:
    assert frames(PYTHON)[:2] == [
        ("/home/ann/proj/train.py", 12, "<module>", "main()"),
        ("/home/ann/proj/train.py", 9, "main", "loss = model(x)"),
    ]
    assert read(PYTHON).message.startswith("RuntimeError: Expected all tensors")


def test_ipython() -> None:
    found = read(IPYTHON)
    assert found.frames == (
        Frame("", 3, "", "loss = criterion(model(x), y)", 7),
        Frame("~/proj/model.py", 44, "Net.forward", "return self.fc(x)"),
    )
    assert found.message.startswith("RuntimeError: Expected")


def test_old_ipython() -> None:
    assert read(OLD_IPYTHON).frames == (
        Frame("", 3, "", "loss = criterion(model(x), y)", 12),
        Frame("/content/proj/model.py", 44, "forward", "return self.fc(x)"),
    )


def test_pytest() -> None:
    found = frames(PYTEST)
    assert ("tests/test_step.py", 14, "", "loss = model(torch.zeros(2, 3))") in found
    assert [entry[:3] for entry in found if entry[0] == "proj/model.py"] == [("proj/model.py", 44, "forward")]
    assert read(PYTEST).message.startswith("RuntimeError: Expected all tensors")


def test_rich() -> None:
    assert frames(RICH) == [("/home/ann/proj/train.py", 9, "main", "loss = model(x)")]


def test_prefixes_of_launchers() -> None:
    assert frames(RANKS) == [("/home/ann/proj/train.py", 9, "main", "loss = model(x)")]


def test_colours() -> None:
    text = PYTHON.replace("train.py", "\x1b[35mtrain.py\x1b[0m")
    assert frames(text) == frames(PYTHON)


def test_the_last_error_counts() -> None:
    text = (
        PYTHON
        + "\nDuring handling of the above exception, another exception occurred:\n\n"
        + PYTHON.replace("RuntimeError", "ValueError")
    )
    assert read(text).message.startswith("ValueError")


@pytest.mark.parametrize("text", ["", "\n", "RuntimeError", "File", "│", "E ", "----> "])
def test_scraps(text: str) -> None:
    assert read(text).frames == ()


# rich 14, 60 columns wide, with locals: paths, lines of code and the error itself are broken.
NARROW = """
╭─────────── Traceback (most recent call last) ────────────╮
│ in _run_code:88                                          │
│ /home/ann/proje/folder_with_some_name/another_folder_of_ │
│ the_program/prog_with_a_long_name.py:6 in <module>       │
│                                                          │
│   3 │   return model(x)                                  │
│   4 def main():                                          │
│   5 │   raise RuntimeError("Expected all tensors to be o │
│ ❱ 6 main()                                               │
│   7                                                      │
│                                                          │
│ ╭─────────────────────── locals ───────────────────────╮ │
│ │ torch = <module 'torch' from                         │ │
│ │         '/home/ann/proj/venv/lib/python3.11/site-pa… │ │
│ ╰──────────────────────────────────────────────────────╯ │
│                                                          │
│ /home/ann/proje/folder_with_some_name/another_folder_of_ │
│ the_program/prog_with_a_long_name.py:5 in main           │
│                                                          │
│   2 def step(model, x):                                  │
│   3 │   return model(x)                                  │
│   4 def main():                                          │
│ ❱ 5 │   raise RuntimeError("Expected all tensors to be o │
│   6 main()                                               │
│   7                                                      │
╰──────────────────────────────────────────────────────────╯
RuntimeError: Expected all tensors to be on the same device,
but found at least two devices, cuda:0 and cpu! (when
checking argument for argument mat1 in method
wrapper_CUDA_addmm)
"""


def test_a_narrow_box_of_rich() -> None:
    found = read(NARROW)
    path = "/home/ann/proje/folder_with_some_name/another_folder_of_the_program/prog_with_a_long_name.py"
    assert [(frame.path, frame.line, frame.function) for frame in found.frames] == [
        (path, 6, "<module>"),
        (path, 5, "main"),
    ]
    assert found.frames[0].code == "main()"
    assert found.frames[1].code.startswith('raise RuntimeError("Expected all tensors')
    assert found.message.endswith(
        "cuda:0 and cpu! (when checking argument for argument mat1 in method wrapper_CUDA_addmm)"
    )


def test_a_path_that_is_broken_before_its_function() -> None:
    box = "╭── Traceback (most recent call last) ──╮\n│ /home/ann/projects/long/train.py:9   │\n│ in main                              │\n╰──────╯\n"
    assert [(frame.path, frame.line, frame.function) for frame in read(box).frames] == [
        ("/home/ann/projects/long/train.py", 9, "main")
    ]
