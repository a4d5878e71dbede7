"""Writes names.txt: names and shapes of every model's weights as PyTorch's state_dict has them.

    python3 make_names.py > names.txt        needs torch and torchvision (made with torchvision 0.29)

Models of torchvision have its names; the others are the module that one would write, with the names of Kerf's layers.
Of those that Caffe published there is nothing here. Counters of batches (num_batches_tracked) are no weights.
"""

import torch
import torchvision
import torchvision.models as vision
from torch import nn


def small(**layers):
    return nn.ModuleDict(layers)


def mlp(*sizes):
    return small(**{f"fc{i + 1}": nn.Linear(sizes[i], sizes[i + 1]) for i in range(len(sizes) - 1)})


def lenet5(norms):
    layers = {"conv1": nn.Conv2d(1, 6, 5), "conv2": nn.Conv2d(6, 16, 5), "fc1": nn.Linear(400, 120), "fc2": nn.Linear(120, 84),
              "fc3": nn.Linear(84, 10)}
    if norms:
        layers |= {"bn1": nn.BatchNorm2d(6), "bn2": nn.BatchNorm2d(16)}
    return small(**layers)


def convnet():
    return small(conv1a=nn.Conv2d(1, 32, 3), conv1b=nn.Conv2d(32, 32, 3), conv2a=nn.Conv2d(32, 64, 3),
                 conv2b=nn.Conv2d(64, 64, 3), fc1=nn.Linear(3136, 128), fc2=nn.Linear(128, 10))


def lstm_lm(vocabulary, width, hidden):
    return small(embedding=nn.Embedding(vocabulary, width), lstm=nn.LSTM(width, hidden),
                 scores=nn.Linear(hidden, vocabulary, bias=False))


def seq2seq(vocabulary, width, hidden, layers):
    return small(source_embedding=nn.Embedding(vocabulary, width), encoder=nn.LSTM(width, hidden, layers),
                 target_embedding=nn.Embedding(vocabulary, width), decoder=nn.LSTM(width, hidden, layers),
                 scores=nn.Linear(hidden, vocabulary))


def gpt(layers, d, tokens, vocabulary):
    def block():
        return small(ln_1=nn.LayerNorm(d), attn=small(c_attn=nn.Linear(d, 3 * d), c_proj=nn.Linear(d, d)), ln_2=nn.LayerNorm(d),
                     mlp=small(c_fc=nn.Linear(d, 4 * d), c_proj=nn.Linear(4 * d, d)))

    return small(wte=nn.Embedding(vocabulary, d), wpe=nn.Embedding(tokens, d), h=nn.ModuleList(block() for _ in range(layers)),
                 ln_f=nn.LayerNorm(d), lm_head=nn.Linear(d, vocabulary))


def models():
    yield "mlp", mlp(784, 512, 512, 10)
    yield "lenet5", lenet5(False)
    yield "lenet5-bn", lenet5(True)
    yield "convnet", convnet()
    yield "alexnet", vision.alexnet()
    yield "vgg16", vision.vgg16()
    yield "vgg19", vision.vgg19()
    yield "inception-v3", vision.inception_v3(aux_logits=False, init_weights=False)
    yield "resnet18", vision.resnet18()
    yield "resnet50", vision.resnet50()
    yield "resnet101", vision.resnet101()
    yield "densenet121", vision.densenet121()
    yield "squeezenet", vision.squeezenet1_1()
    yield "shufflenet", vision.shufflenet_v2_x1_0()
    yield "lstm-lm", lstm_lm(32, 32, 64)
    yield "seq2seq", seq2seq(32, 32, 64, 2)
    yield "gpt", gpt(4, 512, 128, 96)
    yield "vit", vision.vit_b_16()


def main():
    version = torchvision.__version__.split('+')[0]
    print(f"# By make_names.py, torchvision {version}")
    with torch.device("meta"):
        for model, module in models():
            for name, tensor in module.state_dict().items():
                if not name.endswith("num_batches_tracked"):
                    print(model, name, "x".join(map(str, tensor.shape)))


if __name__ == "__main__":
    main()
