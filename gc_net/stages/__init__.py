"""Stages of a training: what each needs, how it is built and what it leaves.

| stage | what it trains | needs |
|---|---|---|
| `classifier` | the classifier, on all training images | |
| `fold_classifiers` | one for each fold of the images, on the other folds | |
| `generator` | a learned generator of masks, if the settings name one that is not shipped | |
| `warmup` | the detector, to place what a teacher shows | `classifier` |
| `detector` | the detector, by what the classifiers say about masked images | all of these |
| `rating` | what the detector says of its own boxes | `classifier`, `detector` |
| `second_classifier` | a classifier of close-ups of the shapes | `classifier`, `detector` |

A stage is one file with its settings and a subclass of `Stage`, and a line here. Flags, the order,
folders, recorded settings, resumption, and what runs may share follow from these. Stage files
import TensorFlow only in their methods, because `--help` reads the settings and must be fast.
"""

from gc_net.registry import Registry

STAGES = Registry(
    "stage",
    {
        "classifier": "gc_net.stages.classifier:ClassifierStage",
        "fold_classifiers": "gc_net.stages.fold_classifiers:FoldClassifiersStage",
        "generator": "gc_net.stages.generator:GeneratorStage",
        "warmup": "gc_net.stages.warmup:WarmupStage",
        "detector": "gc_net.stages.detector:DetectorStage",
        "rating": "gc_net.stages.rating:RatingStage",
        "second_classifier": "gc_net.stages.second_classifier:SecondClassifierStage",
    },
)
