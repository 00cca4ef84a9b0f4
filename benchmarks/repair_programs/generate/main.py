# devfix repair -- python main.py
import torch
from model import Decoder


def encode(text):
    return torch.tensor([[2 + ord(letter) % 22 for letter in text]])


if __name__ == "__main__":
    torch.manual_seed(0)
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    model = Decoder().to(device).eval()
    for text in ["hello", "device"]:
        prompt = encode(text)  # planted: prompt
        print(*model.generate(prompt, 8)[0].tolist())
