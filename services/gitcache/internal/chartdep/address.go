// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package chartdep

import (
	"net/url"
	"path"
	"slices"
	"strings"

	"github.com/leatdev/leat/internal/contract/upstream"
	"github.com/leatdev/leat/services/gitcache/internal/content"
)

// localScheme begins the URL of a dependency in the same repository.
const localScheme = "file://"

// usualPorts are the ports that a URL need not name.
var usualPorts = map[string]string{"https": "443", "http": "80"}

// places reports whether the repository with a name and a definition is where a dependency comes
// from. The URL of an OCI repository names one chart: the dependency's URL and its name.
func (n Need) places(name string, def upstream.Definition) bool {
	alias, isAlias := aliasOf(n.Repository)
	switch def.Type {
	case upstream.TypeHelm:
		if isAlias {
			return alias == name
		}
		want, ok := normal(n.Repository)
		got, known := normal(def.URL)
		return ok && known && want == got
	case upstream.TypeOCI:
		at, err := upstream.ParseRegistry(def.URL)
		if err != nil {
			return false
		}
		if isAlias {
			return alias == name && path.Base(at.Name) == n.Name
		}
		if !strings.HasPrefix(n.Repository, upstream.SchemeOCI+"://") {
			return false
		}
		want, err := upstream.ParseRegistry(strings.TrimRight(n.Repository, "/") + "/" + n.Name)
		return err == nil && strings.EqualFold(want.Base.Host, at.Base.Host) && want.Name == at.Name
	case upstream.TypeGit:
	}
	return false
}

// normal returns a URL of HTTP in one spelling: without the usual port and slashes at the end. ok is
// false for any other URL, and for one that holds a password.
func normal(raw string) (address string, ok bool) {
	u, err := url.Parse(raw)
	if err != nil || u.User != nil || u.Fragment != "" || u.Hostname() == "" {
		return "", false
	}
	usual, ok := usualPorts[u.Scheme]
	host := strings.ToLower(u.Host)
	if u.Port() == usual {
		host = strings.TrimSuffix(host, ":"+usual)
	}
	return u.Scheme + "://" + host + strings.TrimRight(u.EscapedPath(), "/") + "?" + u.RawQuery, ok
}

// problem returns a sentence about a repository that cannot be any of Leat's; "" if it can.
func (n Need) problem() string {
	if isAlias(n.Repository) {
		return ""
	}
	u, err := url.Parse(n.Repository)
	switch {
	case err != nil:
		return "Its repository is not a URL."
	case u.User != nil:
		return "Its repository's URL holds a user or a password. Leat takes the credential of the repository that it defines; remove it from the file."
	case !slices.Contains([]string{"https", "http", upstream.SchemeOCI}, u.Scheme):
		return "Its repository has to be https://…, http://…, oci://…, file://… or @name, where the name is that of a repository in Leat."
	}
	return ""
}

// Within returns the folder that a path relative to the chart at a folder leads to, both relative to
// the root of their repository. ok is false where it leads out of the repository.
func Within(chart, local string) (folder string, ok bool) {
	if local == "" || strings.HasPrefix(local, "/") || strings.ContainsAny(local, "\\\x00") {
		return "", false
	}
	folder = path.Join(chart, local)
	if folder == ".." || strings.HasPrefix(folder, "../") {
		return "", false
	}
	folder, err := content.CleanFolder(folder)
	return folder, err == nil
}
