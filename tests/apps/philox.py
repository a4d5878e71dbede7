"""ops/random.h's permutation, written again from its description: the order in which an epoch takes its rows."""

import numpy as np

MASK = np.uint64(0xFFFFFFFF)
M0, M1 = np.uint64(0xD2511F53), np.uint64(0xCD9E8D57)
W0, W1 = 0x9E3779B9, 0xBB67AE85
KEY_TAG = 0x6B657266
PERMUTATION = 0x7FFFFFFF  # kPermutationPurpose


def philox(counter, key):
    """Philox4x32-10 (Salmon et al., SC'11). counter: four arrays of uint64 below 2^32; key: two numbers."""
    c = [np.asarray(word, dtype=np.uint64) for word in counter]
    k0, k1 = key
    for _ in range(10):
        p0, p1 = M0 * c[0], M1 * c[2]
        c = [(p1 >> np.uint64(32)) ^ c[1] ^ np.uint64(k0), p1 & MASK, (p0 >> np.uint64(32)) ^ c[3] ^ np.uint64(k1),
             p0 & MASK]
        k0, k1 = (k0 + W0) & 0xFFFFFFFF, (k1 + W1) & 0xFFFFFFFF
    return c


def permutation(count, seed, epoch):
    mixed = philox([PERMUTATION, epoch >> 32, KEY_TAG, 0], (seed & 0xFFFFFFFF, seed >> 32))
    i = np.arange(count, dtype=np.uint64)
    zero = np.zeros(count, dtype=np.uint64)
    draws = philox([i & MASK, i >> np.uint64(32), zero + np.uint64(epoch & 0xFFFFFFFF), zero],
                   (int(mixed[0]), int(mixed[1])))[0]
    targets = ((draws * (i + np.uint64(1))) >> np.uint64(32)).astype(np.int64)
    order = list(range(count))
    for at in range(count - 1, 0, -1):
        to = targets[at]
        order[at], order[to] = order[to], order[at]
    return order
