// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package store

import (
	"bytes"
	"fmt"
	"path/filepath"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/kit/durable"
	"github.com/leatdev/leat/services/gitcache/internal/mirror"
)

// keptPrefix is where the git command finds the delivered object of a ref that is held back. It
// also keeps tools that drop unreachable objects from dropping these.
const keptPrefix = "refs/leat/"

// allRefs returns the refs, by name, and with held ones also the objects that are delivered
// instead.
func allRefs(refs mirror.Refs) mirror.Refs {
	all := slices.Clone(refs)
	for _, ref := range refs {
		if ref.GoodObject != "" {
			all = append(all, mirror.Ref{
				Name: keptPrefix + strings.TrimPrefix(ref.Name, "refs/"), Object: ref.GoodObject, Commit: ref.GoodCommit,
			})
		}
	}
	return mirror.NewRefs(all)
}

// writeRefs writes packed-refs and HEAD, so that the git command and a person find the mirror as it
// is. This package itself never reads them: state.json counts.
func writeRefs(dir string, c mirror.Content) error {
	var packed bytes.Buffer
	packed.WriteString("# pack-refs with: peeled fully-peeled sorted \n")
	for _, ref := range allRefs(c.Refs) {
		fmt.Fprintf(&packed, "%s %s\n", ref.Object, ref.Name)
		if ref.Commit != "" && ref.Commit != ref.Object {
			fmt.Fprintf(&packed, "^%s\n", ref.Commit)
		}
	}
	head := "ref: refs/heads/main\n"
	switch {
	case c.DefaultBranch != "":
		head = "ref: " + c.DefaultBranch + "\n"
	case c.Head != "":
		head = c.Head + "\n"
	}
	err := durable.WriteFile(filepath.Join(dir, "packed-refs"), temporaryPrefix, packed.Bytes())
	if err == nil {
		err = durable.WriteFile(filepath.Join(dir, "HEAD"), temporaryPrefix, []byte(head))
	}
	if err != nil {
		return fmt.Errorf("write refs: %w", err)
	}
	return nil
}
