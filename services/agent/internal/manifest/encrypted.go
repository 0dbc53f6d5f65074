// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package manifest

import (
	"bytes"
	"cmp"
	"context"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/contract/clusterref"
	"github.com/leatdev/leat/render"
	"github.com/leatdev/leat/render/sops"
	"github.com/leatdev/leat/services/agent/internal/k8s"
	"github.com/leatdev/leat/services/agent/internal/plan"
)

const (
	// keySuffix ends the names of its entries that are key files.
	keySuffix = ".agekey"
	// maxOpened bounds the bytes of files that are read for the encrypted objects of a tree. A file counts
	// each time: one that holds the MACs of many others is read for each of those.
	maxOpened = 64 << 20
)

// open opens the encrypted objects of a tree. Its values are secrets from then on.
func open(
	ctx context.Context, readers Readers, s plan.Service, files *render.Files, objects []render.Object,
	given *given, all *Manifests,
) error {
	var keys *keyring
	opened := map[string]*sops.File{} // by MAC
	for _, o := range objects {
		mac, isEncrypted := sops.MACOf(o.Object)
		if !isEncrypted {
			continue
		}
		if keys == nil {
			all.AsksFacts = true // a change of the keys that no watch shows is found at the next refresh
			var err error
			if keys, err = readKeys(ctx, readers, s, all); err != nil {
				return err
			}
		}
		file := opened[mac]
		if file == nil {
			var err error
			if file, err = keys.openFile(files, mac); err != nil {
				return cmp.Or(asError(err), error(&render.Error{Path: o.Path, Document: o.Document, Cause: err}))
			}
			opened[mac] = file
		}
		values, err := file.Fill(o.Object)
		if err != nil {
			return &render.Error{Path: o.Path, Document: o.Document, Cause: fmt.Errorf("%s %s: %w", o.GetKind(), o.GetName(), err)}
		}
		var texts []string
		for _, value := range values {
			texts = append(texts, secretTexts(value)...)
		}
		all.conceal(texts, given)
	}
	return nil
}

// asError returns an error that names its file already, or nil.
func asError(err error) error {
	if _, isPlaced := errors.AsType[*render.Error](err); isPlaced {
		return err
	}
	return nil
}

// openFile opens the file that has a MAC. It returns a *render.Error if the file cannot be opened,
// and another error if there is none.
func (k *keyring) openFile(files *render.Files, mac string) (file *sops.File, err error) {
	err = errors.New("has a field sops of which no YAML or JSON file of the source has the mac; opened are files as sops has written them, " +
		"and not what templates make of them")
	start := mac
	if room := 64; len(start) > room {
		start = start[:room] // a writer of YAML may break the line behind it
	}
	files.Find([]byte(start), func(name string, content []byte) bool {
		if k.opened += len(content); k.opened > maxOpened {
			err = &render.Error{Path: name, Cause: fmt.Errorf("encrypted by sops: more than %d bytes were read for the encrypted objects of the source", maxOpened)}
			return false
		}
		opened, failure := sops.OpenFile(content, k.Keys)
		if _, isKeyError := errors.AsType[*sops.KeyError](failure); isKeyError {
			failure = fmt.Errorf("%w; %s", failure, k.hint)
		}
		if failure == nil && opened.MAC() == mac {
			file, err = opened, nil
			return false
		}
		if failure != nil {
			err = &render.Error{Path: name, Cause: fmt.Errorf("encrypted by sops: %w", failure)}
		}
		return true
	})
	return file, err
}

// keyring is the keys of a service, and where they come from. It is for one tree.
type keyring struct {
	sops.Keys

	hint   string // what to do if none of them opens a file
	opened int    // bytes of files that were read
}

// readKeys reads the keys with the rights of the service's account. Without an account they are the
// agent's: a tenant's keys are never tried for another one.
func readKeys(ctx context.Context, readers Readers, s plan.Service, all *Manifests) (*keyring, error) {
	reader, err := readers.Reader(s)
	if err != nil {
		return nil, err
	}
	reader, ref := reader.Keys()
	object := clusterref.Object{Kind: clusterref.Secret, Namespace: ref.Namespace, Name: ref.Name}
	live, err := reader.Get(ctx, ref)
	all.Reads.add(reader, ref, live, err)
	switch {
	case errors.Is(err, k8s.ErrNotFound):
		return &keyring{hint: fmt.Sprintf("%s does not exist; create it: kubectl -n %s create secret generic %s --from-file=NAME%s",
			object, ref.Namespace, ref.Name, keySuffix)}, nil
	case isDenied(err):
		return nil, fmt.Errorf("open what sops encrypted: %w", err)
	case err != nil:
		return nil, err
	}
	data, ok := dataOf(live)
	if !ok {
		return nil, &render.Error{Path: object.String(), Cause: errors.New("its data cannot be read")}
	}
	var texts []string
	for _, name := range slices.Sorted(maps.Keys(data)) {
		if strings.HasSuffix(name, keySuffix) {
			texts = append(texts, string(bytes.TrimSpace([]byte(data[name]))))
		}
	}
	keys, err := sops.ParseKeys(texts...)
	if err != nil {
		return nil, &render.Error{Path: object.String(), Cause: err}
	}
	return &keyring{Keys: keys, hint: fmt.Sprintf("add an identity of one of them to %s, as an entry that ends in %s", object, keySuffix)}, nil
}
