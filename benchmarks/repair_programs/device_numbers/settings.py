"""Where the networks are."""

SETTINGS = {
    "student": "cuda",
    "teacher": "cuda:1",  # planted: a device that is not there
}
