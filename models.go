package floodmark

import "floodmark/model/load/catalogue"

// CatalogueModels is the names of the models whose configurations are built in, each
// of which stands for a model.
func CatalogueModels() ([]string, error) { return catalogue.Names() }
