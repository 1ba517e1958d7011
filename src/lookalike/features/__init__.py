"""Features: from pictures to vectors.

pixels            check, crop and resize pictures
histograms        Color, Hsv, ProbabilityColor, LaplacianColor, Hough, Fourier: histograms of a whole picture
join              Join: several features concatenated
imported          Imported: vectors that were computed elsewhere

Networks:

efficientnet      EfficientNet, EfficientNetMaps: the default network
onnx_networks     Onnx, OnnxMaps: the user's own networks
kinds             the likeliest classes of a picture in 48 bytes
pooling           pool feature maps and tokens into one vector
inference         onnxruntime sessions, batches, maps as patches
pth               read weights from torch's files

Local descriptors and their aggregation into one vector:

points            positions of patches: a dense grid, corners
sift              Sift and its colour variants
color_statistics  ColorStatistics
aggregate         the base of Vlad, Fisher and DFK: sampling patches, spatial pyramids, boxes
vlad              Vlad
fisher            Fisher
clustering        k-means and mixtures of Gaussians
gmm               Gmm: a mixture as a scikit-learn estimator (library only)
"""

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
