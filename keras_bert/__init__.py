"""BERT for Keras 3 and TensorFlow: any checkpoint or raw text in, one self-contained, proven artifact out."""
