SETTINGS = {
    "steps": 3,
    "device": "cuda:0",  # planted: setting
}
