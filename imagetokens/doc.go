// Package imagetokens is how many positions an image becomes in a language model.
//
// In: a model.Model with the fields of its image processor, and the shape of an
// image in pixels, or the images of a workload's input. Out: a [Count]: the
// shape after the family's resize, the images and patches that run through the
// tower, and the positions of the text or of cross-attention; or an
// [*UnknownError] where the family's rule is not known. A family is one row of
// [families]; what the processor's file does not state is the family's published
// default, and is named.
//
// It opens no image, and does not know how many bytes a position takes.
package imagetokens
