# bash completion for delayer: source <(delayer completion bash)
_delayer() {
	local line
	COMPREPLY=()
	while IFS= read -r line; do
		[[ -n $line ]] && COMPREPLY+=("${line%%$'\t'*}")
	done < <("${COMP_WORDS[0]}" __complete -- "${COMP_WORDS[@]:1:COMP_CWORD}" 2>/dev/null)
}
complete -o default -F _delayer delayer
