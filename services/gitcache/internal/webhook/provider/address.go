// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package provider

import (
	"net"
	"net/url"
	"path"
	"strings"
)

// address returns the one spelling of where a repository is, "host[:port]/path", whatever protocol
// and user it is reached by; empty where the URL cannot be read. It is "host[:port]" alone where a
// URL has no path: many Helm repositories have a host of their own. Letters' case does not count:
// hosts that tell paths apart by it are rare, and the worst that can happen there is a fetch too many.
func address(raw string) string {
	host, folder := split(strings.TrimSpace(raw))
	folder = strings.Trim(path.Clean("/"+folder), "/")
	folder = strings.TrimSuffix(strings.TrimSuffix(strings.ToLower(folder), ".git"), "/") // "/.git" is a worktree's own
	if host == "" || folder == "" && !strings.Contains(raw, "://") {
		return ""
	}
	if folder == "" {
		return strings.ToLower(host)
	}
	return azureAddress(strings.ToLower(host), folder)
}

// split reads scheme://[user@]host[:port]/path and [user@]host:path. A port that the scheme implies
// is left out.
func split(raw string) (host, folder string) {
	if !strings.Contains(raw, "://") {
		before, folder, ok := strings.Cut(raw, ":")
		if !ok || strings.Contains(before, "/") {
			return "", ""
		}
		return before[strings.LastIndexByte(before, '@')+1:], folder
	}
	u, err := url.Parse(raw)
	if err != nil {
		return "", ""
	}
	host = u.Hostname()
	if port := u.Port(); port != "" && port != defaultPort(strings.ToLower(u.Scheme)) {
		host = net.JoinHostPort(host, port)
	}
	return host, u.Path
}

func defaultPort(scheme string) string {
	switch scheme {
	case "https", "oci":
		return "443"
	case "http", "oci+http":
		return "80"
	case "ssh", "git+ssh", "ssh+git":
		return "22"
	case "git":
		return "9418"
	}
	return ""
}

// azureAddress brings the names that one repository has in Azure DevOps to one: its SSH host writes
// v3/ORG/PROJECT/REPO, the old host has the organisation in its name, and a repository named like
// its project leaves the project out.
func azureAddress(host, folder string) string {
	org, old := strings.CutSuffix(host, ".visualstudio.com")
	switch {
	case host == "ssh.dev.azure.com", host == "vs-ssh.visualstudio.com":
		if parts := strings.Split(folder, "/"); len(parts) == 4 && parts[0] == "v3" {
			return "dev.azure.com/" + parts[1] + "/" + parts[2] + "/_git/" + parts[3]
		}
	case old && org != "":
		host, folder = "dev.azure.com", org+"/"+strings.TrimPrefix(folder, "defaultcollection/")
	}
	if parts := strings.Split(folder, "/"); host == "dev.azure.com" && len(parts) == 3 && parts[1] == "_git" {
		folder = parts[0] + "/" + parts[2] + "/_git/" + parts[2]
	}
	return host + "/" + folder
}
