// Package catalogue is well-known models by name: the sizes of their
// configurations as facts, each with its origin.
//
// In: a name as people say it, "llama-3.1-8b" or "meta-llama/Llama-3.1-8B-Instruct".
// Out: an [Entry] with the text of a config.json, cut down to what bears on
// memory. An ambiguous name is an error that lists the candidates.
//
// The list is embedded and parsed when it is asked for. The package does not
// know what a configuration means; model/hfmodel reads it. Each line of
// catalogue.jsonl names the public repository, commit and path that its facts
// come from.
package catalogue
