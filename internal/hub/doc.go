// Package hub reads the files of a model that lie on the Hugging Face Hub, or
// in the cache that its libraries keep.
//
// In: [Settings], which are values of the environment, and a [Name]. Out: a
// [source.Folder] whose files are read a range at a time: what nobody asks for
// is not fetched, and what is fetched is not kept. A file in the cache is read
// there. Errors say what can be done: a token, another name, another revision.
//
// It never reads the environment itself, writes no file, and does not know what
// lies in the files.
//
// The paths of the API are those of the huggingface_hub library
// (src/huggingface_hub/file_download.py, hf_api.py and constants.py of
// https://github.com/huggingface/huggingface_hub), the layout of the cache is
// in https://huggingface.co/docs/huggingface_hub/guides/manage-cache.
package hub
