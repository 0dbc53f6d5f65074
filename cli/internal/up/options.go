// SPDX-FileCopyrightText: The Leat Authors
// SPDX-License-Identifier: Apache-2.0

package up

import (
	"cmp"
	"net"
	"net/url"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/leatdev/leat/cli/internal/failure"
)

// Options are the user's choices.
type Options struct {
	RepoURL   string // repository to deliver; empty means the demo
	Ref       string // branch, tag:NAME, refs/… or commit id; empty means the default branch
	Path      string // folder of the manifests; empty means the root
	Root      string // folder with Path and everything that its manifests refer to; empty means Path
	Namespace string // for objects that name none; empty means "default"

	Clusters   int    // how many control planes to run
	Kubeconfig string // of a cluster to use instead; empty means local control planes
	KubeSource string // folder in or above which tools/kube is; empty means the working directory, or else what leat has itself
	Kind       bool   // run the clusters in containers, with the program kind
	Binaries   string // folder with binaries of a control plane; empty means none
	Mirror     string // base URL to download releases from; empty means upstream, and NoDownload that nothing is downloaded

	Listen      string        // host:port of the front; the services use the following ports
	DataDir     string        // where all files are kept
	WaitTimeout time.Duration // how long the first delivery may take before the summary is shown without it
	Verbose     bool          // also log to LogOutput
}

// NoDownload is the Mirror with which nothing is downloaded.
const NoDownload = "off"

// DefaultListen is where the front listens.
const DefaultListen = "127.0.0.1:8700"

// DefaultDataDir is below the working directory: easy to find, easy to remove.
const DefaultDataDir = ".leat/up"

const maxClusters = 9

// Check returns an error if options contradict each other.
func (o *Options) Check() error {
	switch {
	case o.RepoURL == "" && (o.Ref != "" || o.Path != "" || o.Root != "" || o.Namespace != ""):
		return failure.Usage("--ref, --path, --root and --namespace apply to your own repository; also set --repo")
	case o.Clusters < 1 || o.Clusters > maxClusters:
		return failure.Usage("--clusters must be between 1 and %d", maxClusters)
	case o.Kubeconfig != "" && o.Clusters > 1:
		return failure.Usage("--kubeconfig names one cluster; leave --clusters out")
	case o.Kubeconfig != "" && o.Binaries != "":
		return failure.Usage("--kubeconfig names a cluster that runs already; leave --kubernetes-binaries out")
	case o.Kind && (o.Kubeconfig != "" || o.Binaries != ""):
		return failure.Usage("--kind makes clusters of its own; leave --kubeconfig and --kubernetes-binaries out")
	case o.WaitTimeout <= 0:
		return failure.Usage("--wait-timeout must be more than 0")
	}
	if err := checkListen(o.Listen); err != nil {
		return err
	}
	return checkRepoURL(o.RepoURL)
}

func checkListen(listen string) error {
	host, port, err := net.SplitHostPort(listen)
	if err != nil {
		return failure.Usage("--listen: %q is not of the form HOST:PORT", listen)
	}
	number, err := strconv.ParseUint(port, 10, 16)
	if err != nil || number > 65535-extraPorts {
		return failure.Usage("--listen: %q is not a port between 0 and %d", port, 65535-extraPorts)
	}
	if host == "" {
		return failure.Usage("--listen: name the host, such as 127.0.0.1:%s", port)
	}
	return nil
}

// scpLike is user@host:path, the form that ssh's scp made common.
var scpLike = regexp.MustCompile(`^[^-@/:][^@/:]*@[^@/:]+:.`)

// checkRepoURL refuses at once what the hub would refuse once all of it runs.
func checkRepoURL(text string) error {
	if text == "" {
		return nil
	}
	parsed, err := url.Parse(text)
	hasScheme := strings.Contains(text, "://")
	switch {
	case !hasScheme && scpLike.MatchString(text):
		return nil
	case hasScheme && err == nil && slices.Contains([]string{"https", "http", "ssh"}, parsed.Scheme) && parsed.Host != "":
	default:
		return failure.Usage("--repo: %q is not the URL of a repository at a Git server: want https://…, http://…, ssh://… or user@host:path; "+
			"the hub reads no folder of this machine", text)
	}
	if _, secret := parsed.User.Password(); secret {
		return failure.Usage("--repo: leave the password out of the URL; start leat up without --repo, and apply a Repository with a credential")
	}
	return nil
}

var notInNames = regexp.MustCompile(`[^a-z0-9]+`)

// repoName makes a name from the last part of a URL: "https://example.com/team/My_Shop.git" is
// "my-shop".
func repoName(repoURL string) string {
	trimmed := strings.TrimSuffix(strings.TrimRight(repoURL, "/"), ".git")
	last := trimmed[strings.LastIndexAny(trimmed, "/:")+1:]
	name := strings.Trim(notInNames.ReplaceAllString(strings.ToLower(last), "-"), "-")
	const longest = 60 // a number may follow
	name = strings.Trim(name[:min(len(name), longest)], "-")
	return cmp.Or(name, "repository")
}
