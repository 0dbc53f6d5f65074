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

// ParsePrefix reads https://…, http://…, ssh://… or user@host:path.
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

// opens reports whether a repository's credential may be used for a submodule of it at the same host. Whoever may push to the
// repository chooses the submodule, and could read there whatever the credential opens. So it has to be in the repository's own
// folder, which is the namespace of a user or group at most hosts, or below a prefix that an operator named. A repository
// that is in no folder has nothing around it that could bound that.
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

// folders takes the path of a URL apart. False: a server could read it otherwise than it is taken here.
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
