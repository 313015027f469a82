"""AdamW: three arrays updated in place, two dtypes, hyper-parameters as scalars, some of which follow from others."""

import numpy as np

from cudalab import Budget, In, Kernel, Launch, Out, Scalar, blocks


def reference(params, m, v, grads, lr, beta1, beta2, eps, decay, step):
    m = beta1 * m + (1 - beta1) * grads
    v = beta2 * v + (1 - beta2) * grads**2
    m_hat, v_hat = m / (1 - beta1**step), v / (1 - beta2**step)
    return params - lr * (m_hat / (np.sqrt(v_hat) + eps) + decay * params), m, v


def launch(params, grads, m, v, lr, beta1, beta2, eps, decay, step):
    corrections = (np.float32(1 - float(beta) ** int(step)) for beta in (beta1, beta2))
    args = params, grads, m, v, np.uint64(params.size), lr, beta1, beta2, *corrections, eps, decay
    return Launch(grid=(blocks(params.size, 512),), block=(512,), args=args)


def eager(params, m, v, grads, lr, beta1, beta2, eps, decay, step):
    g, p = grads.float(), params.float()
    m = beta1 * m + (1 - beta1) * g
    v = beta2 * v + (1 - beta2) * g * g
    m_hat, v_hat = m / (1 - beta1**step), v / (1 - beta2**step)
    return (p - lr * (m_hat / (v_hat.sqrt() + eps) + decay * p)).to(params.dtype), m, v


adamw = Kernel(
    file=__file__,
    summary="a step of AdamW",
    dtypes=("float32", "bfloat16"),
    sizes={"small": (20_000,), "large": (2**26,)},
    edges=((1,), (511,), (513,)),
    shapes=dict.fromkeys(("params", "m", "v", "grads"), "n"),
    inputs={"m": In("float32"), "v": In("float32", 0, 4)},
    reference=reference,
    outputs={"params": Out(), "m": Out(dtype="float32"), "v": Out(dtype="float32")},
    scalars={
        "lr": Scalar(1e-3), "beta1": Scalar(0.9), "beta2": Scalar(0.999), "eps": Scalar(1e-8), "decay": Scalar(0.01),
        "step": Scalar(10, "int32"),
    },
    entries={"adamw_kernel": launch},
    budgets={
        "float32": Budget(8, atol=1e-6, why="moments and the step may cancel"),
        "bfloat16": Budget(1, atol=1e-6, why="float32 inside, one rounding at the end"),
    },
    torch=eager,
)  # fmt: skip
