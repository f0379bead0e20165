// Package imagetokens is how many tokens an image becomes in a language model.
//
// In: a model.Model and the images of a workload, each with width and height in
// pixels. Out: for each image the size after the family's resize, its patches and
// its tokens, or unknown where the family's rule is not known. A family is one
// row: its resize, patch and merge.
//
// It opens no image, and does not know how many bytes a token takes.
package imagetokens
