"""Motion-focused video prediction, CDNA (arXiv 1605.07157), as video_prediction in tensorflow/models.

Seven convolutional LSTMs read a frame of a robot that pushes objects, its state and its action. They give 10
kernels that move pixels of that frame, a frame from scratch, and masks that put the next one together. After
two real frames the model reads its own predictions; mixing in real ones at random (scheduled sampling) is
left out.
"""

from __future__ import annotations

import torch
from torch import Tensor, nn

from reference_workloads.generation.conv_lstm import State, lstm_update, zero_state

STATE, ACTION = 5, 5
CONTEXT = 2
"""Real frames before the first prediction that counts."""

KERNELS, SIZE = 10, 5
MASKS = KERNELS + 1
FLOOR = 1e-12
"""Keeps the sum of a kernel, by which it is divided, above zero."""


def layer_norm(channels: int) -> nn.GroupNorm:
    """Over channels and pixels of one image, with a scale and shift for each channel."""
    return nn.GroupNorm(1, channels)


def down(channels: int) -> nn.Sequential:
    return nn.Sequential(nn.Conv2d(channels, channels, 3, stride=2, padding=1), nn.ReLU(inplace=True))


def up(channels: int, bias: bool = True) -> nn.ConvTranspose2d:
    """Doubles the side."""
    return nn.ConvTranspose2d(channels, channels, 3, stride=2, padding=1, output_padding=1, bias=bias)


class ConvLSTM(nn.Module):
    """One convolution of input and hidden state together; what comes out is normalised, the state is not."""

    def __init__(self, inputs: int, channels: int) -> None:
        super().__init__()
        self.channels = channels
        self.gates = nn.Conv2d(inputs + channels, 4 * channels, SIZE, padding=SIZE // 2)
        nn.init.zeros_(self.gates.bias)
        with torch.no_grad():
            self.gates.bias[channels : 2 * channels] = 1.0  # remember at first
        self.norm = layer_norm(channels)

    def forward(self, x: Tensor, state: State | None) -> tuple[Tensor, State]:
        hidden, cell = state or zero_state(x, self.channels)
        state = lstm_update(self.gates(torch.cat([x, hidden], dim=1)), cell)
        return self.norm(state[0]), state


class CDNA(nn.Module):
    """`shrink` divides every channel count but the colours' and masks'; `image` is the side of a frame."""

    def __init__(self, image: int = 64, shrink: int = 1) -> None:
        super().__init__()
        a, b, c = 32 // shrink, 64 // shrink, 128 // shrink
        self.first = nn.Sequential(
            nn.Conv2d(3, a, 5, stride=2, padding=2, bias=False), layer_norm(a), nn.ReLU(inplace=True)
        )
        widths = ((a, a), (a, a), (a, b), (b, b), (b, c), (c, b), (a + b, a))
        self.lstms = nn.ModuleList(ConvLSTM(inputs, channels) for inputs, channels in widths)
        self.down1, self.down2 = down(a), down(b)
        self.mix = nn.Sequential(nn.Conv2d(b + STATE + ACTION, b, 1), nn.ReLU(inplace=True))
        self.up1 = nn.Sequential(up(c), nn.ReLU(inplace=True))
        self.up2 = nn.Sequential(up(a + b), nn.ReLU(inplace=True))
        self.up3 = nn.Sequential(up(2 * a, bias=False), layer_norm(2 * a), nn.ReLU(inplace=True))
        self.scratch = nn.Conv2d(2 * a, 3, 1)
        self.masks = nn.Conv2d(2 * a, MASKS, 1)
        self.kernels = nn.Linear(c * (image // 8) ** 2, KERNELS * SIZE * SIZE)
        self.next_state = nn.Linear(STATE + ACTION, STATE)

    def forward(self, frames: Tensor, actions: Tensor, state: Tensor) -> tuple[Tensor, Tensor]:
        """(batch, time, 3, side, side), (batch, time, 5), (batch, 5) -> predicted frames and states.

        Both have time - 2 steps: the predictions of the frames after the first two.
        """
        memory: list[State | None] = [None] * len(self.lstms)
        predicted: list[Tensor] = []
        states: list[Tensor] = []
        for step in range(frames.shape[1] - 1):
            previous = frames[:, step] if step < CONTEXT else predicted[-1]
            action = torch.cat([actions[:, step], state], dim=1)
            predicted.append(self.predict(previous, action, memory))
            state = self.next_state(action)
            states.append(state)
        return torch.stack(predicted[CONTEXT - 1 :], dim=1), torch.stack(states[CONTEXT - 1 :], dim=1)

    def predict(self, previous: Tensor, action: Tensor, memory: list[State | None]) -> Tensor:
        """The next frame, (batch, 3, side, side); `memory` is brought up to date."""

        def remember(index: int, x: Tensor) -> Tensor:
            x, memory[index] = self.lstms[index](x, memory[index])
            return x

        half = self.first(previous)
        quarter = self.down1(remember(1, remember(0, half)))
        eighth = self.down2(remember(3, remember(2, quarter)))
        everywhere = action[:, :, None, None].expand(-1, -1, *eighth.shape[2:])
        lowest = remember(4, self.mix(torch.cat([eighth, everywhere], dim=1)))
        x = torch.cat([remember(5, self.up1(lowest)), quarter], dim=1)
        x = self.up3(torch.cat([remember(6, self.up2(x)), half], dim=1))
        still = torch.stack([previous, torch.sigmoid(self.scratch(x))], dim=1)
        # As in the code, whose masks have no room for the last of the moved frames.
        moved = self.move(previous, lowest)[:, : MASKS - 2]
        masks = torch.softmax(self.masks(x), dim=1)
        return (torch.cat([still, moved], dim=1) * masks.unsqueeze(2)).sum(1)

    def move(self, frame: Tensor, lowest: Tensor) -> Tensor:
        """The frame under each of the kernels: (batch, 10, 3, side, side)."""
        batch, colours, height, width = frame.shape
        kernels = self.kernels(lowest.flatten(1)).view(batch, KERNELS, SIZE * SIZE)
        kernels = torch.relu(kernels - FLOOR) + FLOOR
        kernels = kernels / kernels.sum(-1, keepdim=True)
        # Colours take the batch's place and frames the channels', so that each frame has its own kernels.
        moved = nn.functional.conv2d(
            frame.transpose(0, 1),
            kernels.view(batch * KERNELS, 1, SIZE, SIZE),
            padding=SIZE // 2,
            groups=batch,
        )
        return moved.reshape(colours, batch, KERNELS, height, width).permute(1, 2, 0, 3, 4)


def build(
    batch: int = 2, frames: int = 10, image: int = 64, shrink: int = 1
) -> tuple[nn.Module, tuple[Tensor, Tensor, Tensor]]:
    video = torch.rand(batch, frames, 3, image, image)
    actions, state = torch.randn(batch, frames, ACTION), torch.randn(batch, STATE)
    return CDNA(image, shrink), (video, actions, state)
