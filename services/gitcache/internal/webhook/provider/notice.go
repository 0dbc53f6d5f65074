// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"errors"
	"slices"
	"strings"
)

// Kind is the subject of a delivery.
type Kind int

// The kinds of deliveries.
const (
	KindOther Kind = iota // something that moves no refs
	KindPing              // a test of the connection
	KindRefs              // refs moved, appeared or vanished
)

// Notice is a delivery in Leat's words.
type Notice struct {
	Kind Kind
	// Refs are the branches and tags that the sender names, as it names them. It may name others than
	// have moved.
	Refs []string
	// urls are all that the delivery calls the repository by, verbatim.
	urls []string
	// path is the end of the repository's path, for a provider that may send no URL at all; empty
	// otherwise.
	path string
	// delivery is the provider's id of the delivery; empty where there is none.
	delivery string
}

// errNoRepository means that a delivery about refs names no repository.
var errNoRepository = errors.New("no repository is named")

// refs returns a notice that refs of the repository of those URLs moved.
func refs(urls ...string) (Notice, error) {
	urls = slices.DeleteFunc(urls, func(u string) bool { return address(u) == "" })
	if len(urls) == 0 {
		return Notice{}, errNoRepository
	}
	return Notice{Kind: KindRefs, urls: urls}, nil
}

// Concerns reports whether a repository of that URL is the one that the delivery names.
func (n Notice) Concerns(repository string) bool {
	wanted := address(repository)
	if wanted == "" {
		return false
	}
	if n.path != "" && strings.HasSuffix(wanted, "/"+n.path) {
		return true
	}
	return slices.ContainsFunc(n.urls, func(u string) bool { return address(u) == wanted })
}

// Target names the repository for a limit; every delivery about it has the same.
func (n Notice) Target() string {
	if len(n.urls) == 0 {
		return n.path
	}
	return address(n.urls[0])
}
