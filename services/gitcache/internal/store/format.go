// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"errors"
	"fmt"
	"os"
	"path/filepath"
	"strings"

	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// format is how a repository names its objects, in the words of its configuration. Empty: nothing
// tells, since there are no objects.
type format string

const (
	formatSHA1   format = "sha1"
	formatSHA256 format = "sha256"

	digitsSHA256 = 64
)

// formatOf goes by the length of ids, which are all of one kind.
func formatOf(c mirror.Content) format {
	id := c.Head
	if len(c.Refs) > 0 {
		id = c.Refs[0].Object
	}
	switch len(id) {
	case 0:
		return ""
	case digitsSHA256:
		return formatSHA256
	default:
		return formatSHA1
	}
}

// fits reports whether a generation can take objects of that format. A generation that cannot be
// read takes none.
func fits(dir string, want format) bool {
	config, err := os.ReadFile(filepath.Join(dir, "config"))
	if err != nil {
		return false
	}
	return want == "" || strings.Contains(string(config), string(formatSHA256)) == (want == formatSHA256)
}

// partialMark stands in the configuration of a generation that may lack blobs. It is a word of
// ours: to what marks a partial clone for git it would react by asking an upstream for what is
// missing, which nothing but the owner of the lease may do.
const partialMark = "[leat]\n\tpartial = true\n"

// isPartial reports whether the generation in dir may lack blobs.
func isPartial(dir string) (bool, error) {
	config, err := os.ReadFile(filepath.Join(dir, "config"))
	if err != nil {
		return false, fmt.Errorf("read mirror configuration: %w", err)
	}
	return strings.Contains(string(config), partialMark), nil
}

// alike reports whether a generation lacks blobs if, and only if, it may.
func alike(dir string, partial bool) bool {
	is, err := isPartial(dir)
	return err == nil && is == partial
}

// writeSkeleton makes an empty bare repository of a folder. It holds what the git command wants to
// see, and no more.
func writeSkeleton(dir string, f format, partial bool) error {
	config := "[core]\n\trepositoryformatversion = 0\n\tfilemode = true\n\tbare = true\n"
	if f == formatSHA256 {
		config = strings.Replace(config, "= 0", "= 1", 1) + "[extensions]\n\tobjectformat = sha256\n"
	}
	if partial {
		config += partialMark
	}
	return errors.Join(
		os.MkdirAll(packFolder(dir), 0o700),
		os.MkdirAll(filepath.Join(dir, "refs", "heads"), 0o700),
		os.WriteFile(filepath.Join(dir, "config"), []byte(config), 0o600),
		os.WriteFile(filepath.Join(dir, "HEAD"), []byte("ref: refs/heads/main\n"), 0o600),
	)
}
