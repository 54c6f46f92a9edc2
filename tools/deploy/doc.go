// Package deploy tests the files in docs/deploy: Kubernetes's own types read them, and compose's services run as processes.
package deploy
