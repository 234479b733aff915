"""Stages of a training: what each needs, how it is built and what it leaves.

| stage | what it trains | needs |
|---|---|---|
| `classifier` | the classifier, on all training images | |
| `fold_classifiers` | one for each fold of the images, on the other folds | |
| `generator` | a learned generator of masks, where one is asked for that is not shipped | |
| `warmup` | the detector, to place what a teacher shows | `classifier` |
| `detector` | the detector, by what the classifiers make of masked images | all of these |
| `second_classifier` | a classifier of close-ups of the shapes | `classifier`, `detector` |

A stage is one file with its settings and a subclass of `Stage`, and a line here. Flags, the order,
folders, recorded settings, resumption, and what runs may share follow from them. Stage files import
TensorFlow in their methods only: `--help` reads the settings, and must come at once.
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
        "second_classifier": "gc_net.stages.second_classifier:SecondClassifierStage",
    },
)
