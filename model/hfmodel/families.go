package hfmodel

// families is every family that is known, in the order in which they are tried.
func families() []family {
	tables := [][]family{
		decoderFamilies(), variantFamilies(), gptFamilies(), namedFamilies(), sparseFamilies(), furtherSparseFamilies(), hybridFamilies(),
		gemma4Families(), kimiFamilies(), deepseek4Families(), moreDecoders(), encoderFamilies(), moreEncoders(), seq2seqFamilies(),
		towerFamilies(), moreTowerFamilies(), imageFamilies(),
		multimodalFamilies(), customFamilies(), joinedFamilies(), furtherJoinedFamilies(), moreJoined(), diffusionFamilies(), gemma3nFamilies(), speechFamilies(), minimaxM3Families(),
	}
	var all []family
	for _, rows := range tables {
		all = append(all, rows...)
	}
	return all
}
