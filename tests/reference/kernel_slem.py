"""Reference implementation of kernel SLEM: Eq. 1 as one dense linear system in α and ν, and the paper's formulas.

x (d,) is an exemplar, N (n, d) are the negatives, and k is a kernel function of two rows.
"""

import numpy as np

from reference.kernels import gram


def dense(x, N, k, lam):
    """Return α (n + 1,) over [x; N] and ν where the gradient of Eq. 1 (square loss, θ = 1/n) is 0."""
    n = len(N)
    rows = np.vstack([x, N])
    K = gram(rows, rows, k)
    labels = np.r_[1.0, -np.ones(n)]
    # θ = 1/n: all losses have weight 1/n. Zero gradient for α: (K/n + λI)α + ν1/n = y/n; for ν: 1ᵀ(Kα + ν) = 1ᵀy.
    system = np.block(
        [[K / n + lam * np.eye(n + 1), np.ones((n + 1, 1)) / n], [K.sum(axis=0)[None], np.array([[n + 1]])]]
    )
    solution = np.linalg.solve(system, np.r_[labels / n, labels.sum()])
    return solution[:-1], solution[-1]


def loss(alpha, nu, x, N, k, lam):
    """Eq. 1."""
    rows = np.vstack([x, N])
    K = gram(rows, rows, k)
    labels = np.r_[1.0, -np.ones(len(N))]
    return 0.5 * np.sum((labels - K @ alpha - nu) ** 2) / len(N) + lam / 2 * alpha @ K @ alpha


def inner(alpha, x, other, y, N, k):
    """Return ⟨h, h'⟩ of two α-expansions."""
    return alpha @ gram(np.vstack([x, N]), np.vstack([y, N]), k) @ other


def similarity(X, N, k, lam):
    """Return the cosines of the classifiers of rows X, (m, m), each from the dense system."""
    alphas = [dense(x, N, k, lam)[0] for x in X]
    s = np.array(
        [[inner(a, x, b, y, N, k) for b, y in zip(alphas, X, strict=True)] for a, x in zip(alphas, X, strict=True)]
    )
    return s / np.sqrt(np.outer(np.diag(s), np.diag(s)))


def by_formulas(X, N, B, k, lam, pivots=None):
    """Return the same cosines from the paper's β̂, v and α₀, for any factor B of the negatives' kernel matrix.

    v = B⁺k₀; for an incomplete Cholesky factor, B⁺ is the pseudo-inverse of the pivot rows.
    """
    pivots = np.arange(len(N)) if pivots is None else pivots
    n, theta = len(N), 1 / len(N)
    mu = B.mean(axis=0)
    A = B.T @ B / n - np.outer(mu, mu) + lam * np.eye(B.shape[1])
    stored = []
    for x in X:
        v = np.linalg.pinv(B[pivots], rcond=1e-12) @ np.array([k(x, y) for y in N[pivots]])
        u2 = max(0.0, k(x, x) - v @ v)
        q = u2 / lam + (v - mu) @ np.linalg.inv(A) @ (v - mu)
        c = 2 * theta / (theta * q + theta + 1)
        stored.append((c * np.linalg.inv(A) @ (v - mu), v, c / lam))
    s = np.array(
        [
            [b @ b_ + a * a_ * (k(x, y) - v @ v_) for (b_, v_, a_), y in zip(stored, X, strict=True)]
            for (b, v, a), x in zip(stored, X, strict=True)
        ]
    )
    return s / np.sqrt(np.outer(np.diag(s), np.diag(s)))


def linear_slem(X, N, lam):
    """Return the cosines of the ω of linear SLEM, Eq. 6."""
    mu = N.mean(axis=0)
    W = np.linalg.solve(np.cov(N.T, bias=True) + lam * np.eye(N.shape[1]), (X - mu).T).T
    W /= np.linalg.norm(W, axis=1, keepdims=True)
    return W @ W.T
