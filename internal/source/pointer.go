package source

// pointerOpening is the first line of what Git LFS leaves in the place of a
// large file (https://github.com/git-lfs/git-lfs/blob/main/docs/spec.md).
const pointerOpening = "version https://git-lfs.github.com/spec/"

// RefusePointer refuses what git leaves in the place of a large file when only
// the repository was cloned.
func RefusePointer(s Source) error {
	head, err := Head(s, int64(len(pointerOpening)))
	if err != nil {
		return err
	}
	if string(head) != pointerOpening {
		return nil
	}
	return AtByte(s.Name(), 0, "is a Git LFS pointer, not the file itself").
		WithHint("run git lfs pull in its folder")
}
