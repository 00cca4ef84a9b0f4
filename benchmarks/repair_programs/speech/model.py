from features import Mel, Spectrogram, positions
from torch import nn
from torch.nn.utils.rnn import pack_padded_sequence


class Speech(nn.Module):
    def __init__(self, bands=6, width=10, speakers=3):
        super().__init__()
        self.front = nn.Sequential(Spectrogram(), Mel(bands=bands))
        self.rnn = nn.GRU(bands, width, batch_first=True)
        self.heads = {
            "speaker": nn.Linear(width, speakers),
            "age": nn.Linear(width, 1),
        }  # planted: dict of modules

    def forward(self, waves, lengths):
        x = self.front(waves)
        x = x + positions(x.shape[1], x.shape[2])
        packed = pack_padded_sequence(x, lengths, batch_first=True, enforce_sorted=False)  # planted: lengths
        _, last = self.rnn(packed)
        return {name: head(last[0]) for name, head in self.heads.items()}
