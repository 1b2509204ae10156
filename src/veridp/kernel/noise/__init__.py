"""The noise that a mechanism may draw, a module for each distribution; engines know those that are imported here."""

from veridp.kernel.distributions import Distribution
from veridp.kernel.noise.beta import Beta
from veridp.kernel.noise.binomial import Binomial
from veridp.kernel.noise.cauchy import Cauchy
from veridp.kernel.noise.discrete_gaussian import DiscreteGaussian
from veridp.kernel.noise.exponential import Exponential
from veridp.kernel.noise.gamma import Gamma
from veridp.kernel.noise.geometric import Geometric
from veridp.kernel.noise.gumbel import Gumbel
from veridp.kernel.noise.integers import Integers
from veridp.kernel.noise.laplace import Laplace, LaplaceSum
from veridp.kernel.noise.logistic import Logistic
from veridp.kernel.noise.normal import Normal
from veridp.kernel.noise.poisson import Poisson
from veridp.kernel.noise.staircase import Staircase
from veridp.kernel.noise.student import StudentT
from veridp.kernel.noise.triangular import Triangular
from veridp.kernel.noise.truncated import TruncatedLaplace
from veridp.kernel.noise.uniform import Uniform

__all__ = [
    "Beta",
    "Binomial",
    "Cauchy",
    "DiscreteGaussian",
    "Distribution",
    "Exponential",
    "Gamma",
    "Geometric",
    "Gumbel",
    "Integers",
    "Laplace",
    "LaplaceSum",
    "Logistic",
    "Normal",
    "Poisson",
    "Staircase",
    "StudentT",
    "Triangular",
    "TruncatedLaplace",
    "Uniform",
]
