"""Teachers: where the objects of training images are, told without a single box."""
