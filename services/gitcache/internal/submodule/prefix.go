// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package submodule

import (
	"errors"
	"net/url"
	"slices"
	"strings"
)

// Prefix names the repositories below a folder of a host.
type Prefix struct {
	origin  origin
	folders []string
}

// ParsePrefix parses a prefix in the form https://…, http://…, ssh://… or user@host:path.
func ParsePrefix(text string) (Prefix, error) {
	o, ok := originOf(text)
	if !ok {
		return Prefix{}, errors.New("want https://…, http://…, ssh://… or user@host:path")
	}
	folders, ok := folders(text)
	if !ok {
		return Prefix{}, errors.New("want a path without escapes, and without . and .. as folders")
	}
	return Prefix{origin: o, folders: folders}, nil
}

// opens reports whether the credential of the repository root may be used for its submodule address
// at the same host. A committer to the repository chooses the submodule, and could read any
// repository that the credential opens there. So the submodule has to be in the repository's own
// folder, which is the namespace of a user or group at most hosts, or below a prefix that an
// operator named. If the repository is not in a folder, only those prefixes count.
func opens(root, address string, shared []Prefix) bool {
	at, ok := folders(address)
	if !ok {
		return false
	}
	if o, ok := originOf(address); ok {
		for _, p := range shared {
			if p.origin == o && begins(at, p.folders) {
				return true
			}
		}
	}
	own, ok := folders(root)
	return ok && len(own) > 1 && begins(at, own[:len(own)-1])
}

// begins reports whether a path is below folders.
func begins(path, folders []string) bool {
	return len(path) > len(folders) && slices.Equal(path[:len(folders)], folders)
}

// folders splits the path of a URL into its segments. It returns false if a server could interpret
// the path differently.
func folders(address string) ([]string, bool) {
	path := ""
	if strings.Contains(address, "://") {
		u, err := url.Parse(address)
		if err != nil || u.RawQuery != "" || u.Fragment != "" {
			return nil, false
		}
		path = u.EscapedPath()
	} else {
		_, _, path, _ = cutShort(address)
	}
	if strings.ContainsAny(path, "%\\;?#") {
		return nil, false
	}
	path = strings.Trim(path, "/")
	if path == "" {
		return nil, true
	}
	all := strings.Split(path, "/")
	for _, segment := range all {
		if segment == "" || segment == "." || segment == ".." {
			return nil, false
		}
	}
	return all, true
}
