"""PD, posterior divergence: what an item does to a mixture of Gaussians, how well it fits, and how sure that is.

In: (n, d) rows, or n sets of descriptors, NumPy or torch. Out: (n, k(2d + 3)) float32. Li, Lee & Liu, "Hybrid
generative-discriminative classification using posterior divergence", CVPR 2011: the likelihood of incremental EM, taken
apart, for a mixture with diagonal covariances. The formulas are derived here from that.
"""

from lookalike.arrays import namespace
from lookalike.learn.fess import Fess, Gaussians, Moments, log_densities
from lookalike.types import Array


class Pd(Fess):
    """Posterior divergence: an item is what one step of incremental EM makes of the mixture when the item comes to it.

    With N the items fitted on, θ the mixture and θ⁺ the mixture after the step, and g the item's posteriors, its
    coordinates are, for each Gaussian: what its coming changes for the others, Nα log(α⁺ / α) and, number by number,
    −Nα KL(N(u, σ²) ‖ N(u⁺, σ⁺²)); how well it fits, g log α⁺ and g log N(x; u⁺, σ⁺²); and −g log g. Their sum is how
    much the bound on the log-likelihood of all items gains by it. All else is as in `Fess`.

    Examples
    --------
    >>> import numpy as np
    >>> random = np.random.default_rng(0)
    >>> pictures = [random.normal(size=(random.integers(5, 9), 3)) for _ in range(50)]
    >>> Pd(k=2).fit(pictures).transform(pictures).shape
    (50, 18)

    """

    def _pieces(self, gaussians: Gaussians, moments: Moments) -> Array:
        """(n, k(2d + 3)): effect and fit of the densities, of the weights, and the entropies."""
        xp, (alpha, old, _), (counts, off, squares, entropies) = namespace(moments.counts), gaussians, moments
        rows = self.items_ * alpha  # (k,), how much each Gaussian stood for
        now = rows + counts  # (n, k)
        new_alpha = now / (self.items_ + 1)
        shift = off / now[:, :, None]  # (n, k, d), u⁺ − u
        new = (rows[:, None] * old + squares) / now[:, :, None] - shift * shift  # σ⁺²
        effects = -rows[:, None] * (xp.log(new / old) + (old + shift * shift) / new - 1) / 2
        about = squares - shift * (2 * off - counts[:, :, None] * shift)  # Σ g (z − m⁺)²
        fits = log_densities(gaussians, moments._replace(squares=about), new)
        flat = (xp.reshape(part, (counts.shape[0], -1)) for part in (effects, fits))
        weights = rows * xp.log(new_alpha / alpha), counts * xp.log(new_alpha)
        return xp.concat([*flat, *weights, entropies], axis=1)
